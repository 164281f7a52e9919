"""The sets of an evaluation, loaded."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from eval_service.domain.ports import ProblemSet, Sound
from eval_service.domain.sample import ProblemKey, Sample, SampleKey
from eval_service.domain.score import Facts
from eval_service.domain.spec import EvaluationSpec, ProblemSetRef, Prompting
from ratchet_environments import Task
from ratchet_environments.failures import FailedTest, shown
from ratchet_environments.preflight import in_kinds
from ratchet_kit.errors import FieldViolation, InvalidArgument, NotFound
from ratchet_kit.faults import Faults
from ratchet_problems import Message, Problem, fingerprint, tests_fingerprint
from ratchet_problems.examples import DEFAULT, LOOKED_AT, Examples

SLOW = timedelta(seconds=1)
"""Of CPU time, of a reference: few problems take longer, and those that do take far longer."""
_NAMED = 20
"""As many faults a refusal names."""
_SHOWN = 100
"""As many tests people are shown."""


@dataclass(frozen=True, slots=True)
class Imported:
    """A sample that was made elsewhere."""

    problem_id: str
    index: int
    text: str
    is_program: bool = False
    """A whole program, and not what goes on from the benchmark's prompt."""
    benchmark: str = ""
    """May be empty where there is one set."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A problem as people are shown it."""

    prompt: str
    tests: tuple[FailedTest, ...]
    """The first that are not held out."""
    held_out: int


class Sets:
    def __init__(self, spec: EvaluationSpec, sets: Sequence[ProblemSet], examples: Examples = Examples()) -> None:
        """`sets`: in the order of the spec's suite. `examples`: shown before each problem."""
        self._sets = dict(zip(spec.names, sets, strict=True))
        self._problems = {
            ProblemKey(name, problem.id): examples.before(problem.under(spec.system))
            for name, loaded in self._sets.items()
            for problem in loaded.problems
        }
        self._graded = dict(self._problems)
        self._slow: set[ProblemKey] = set()

    @property
    def loaded(self) -> Sequence[tuple[str, str]]:
        """Digest and version of each."""
        return [(one.digest, one.version) for one in self._sets.values()]

    @property
    def problems(self) -> dict[ProblemKey, Problem]:
        """In order, as their sets have them."""
        return self._problems

    @property
    def slow(self) -> Collection[ProblemKey]:
        """Those to begin with: what takes longest is not to be what all wait for at the end (Graham, Bounds on
        multiprocessing timing anomalies, SIAM Journal on Applied Mathematics 17, 1969)."""
        return self._slow

    def grade(self, key: ProblemKey, sound: Sound) -> None:
        """From now on the problem is judged as its reference was."""
        self._graded[key] = in_kinds(self._problems[key], sound.shared)
        if sound.cpu_time >= SLOW:
            self._slow.add(key)

    def set_of(self, key: ProblemKey) -> ProblemSet:
        return self._sets[key.benchmark]

    def facts(self) -> list[Facts]:
        return [
            Facts(
                key,
                problem.structure,
                fingerprint(problem),
                (f"difficulty {problem.difficulty}", *(f"tag {tag}" for tag in problem.tags)),
                tests=tests_fingerprint(problem),
            )
            for key, problem in self._problems.items()
        ]

    def task(self, key: ProblemKey, messages: tuple[Message, ...] = (), *, is_program: bool = False) -> Task:
        """What judges an answer to the problem."""
        own = self._sets[key.benchmark]
        return Task(self._graded[key], messages, own.runtime, own.limits(self._problems[key]), is_program)

    def program(self, sample: Sample) -> str:
        """The program that the set's official evaluator makes of a sample."""
        own, problem = self._sets[sample.key.benchmark], self._problems[sample.key.problem]
        return (own.solution if sample.is_program else own.program)(problem, sample.completion)

    def shown(self, key: ProblemKey, prompting: Prompting) -> Shown:
        """As it is put to a model; where no form is known, no model was asked. Raises NotFound."""
        if key not in self._problems:
            raise NotFound(f"there is no problem {key.problem_id!r} in {key.benchmark}")
        problem, prompt = self._problems[key], self._problems[key].shown
        if prompting.form:
            put = self._sets[key.benchmark].put(problem, prompting.form, prompting.shots)
            said = [f"{message.role}: {message.content}" for message in put.messages]
            prompt = "\n\n".join(said) if len(said) > 1 else put.text or put.messages[0].content
        tests = [test for test in problem.tests if not test.held_out]
        first = tuple(shown(problem, test) for test in tests[:_SHOWN])
        return Shown(prompt, first, len(problem.tests) - len(tests))

    def check(self, keys: Iterable[SampleKey]) -> None:
        """Raises InvalidArgument for samples of a problem that is not there."""
        unknown = sorted({key.problem for key in keys}.difference(self._problems))
        if unknown:
            named = ", ".join(f"{key.problem_id!r} of {key.benchmark}" for key in unknown[:_NAMED])
            more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
            violation = FieldViolation("samples.problem_id", f"there is no problem {named}{more}")
            raise InvalidArgument(f"the samples cannot be judged: {violation.description}", [violation])


def looked_at(wanted: ProblemSetRef) -> ProblemSetRef:
    """The part of a set in which examples are looked for."""
    return replace(wanted, limit=LOOKED_AT, digest="")


def examples_of(wanted: ProblemSetRef, first: ProblemSet) -> Examples:
    """`first`: what `looked_at` leads to. Raises InvalidArgument where too few problems are solved."""
    return Examples.of(wanted.name, first.problems, wanted.limit or DEFAULT)


def samples_of(spec: EvaluationSpec, imported: Sequence[Imported]) -> list[Sample]:
    """Raises InvalidArgument for samples that the evaluation has no place for."""
    faults = Faults()
    found: list[Sample] = []
    for place, one in enumerate(imported):
        name = one.benchmark or (spec.names[0] if len(spec.names) == 1 else "")
        if len(faults.violations) < _NAMED:
            where = faults.under(f"samples[{place}]")
            where.unless(name in spec.names, "benchmark", f"must be one of {', '.join(spec.names)}")
            where.required("problem_id", one.problem_id)
            where.bounds("index", one.index, at_least=0, below=spec.samples_per_problem)
        found.append(Sample(SampleKey(name, one.problem_id, one.index), one.text, is_program=one.is_program))
    faults.raise_if_any("the samples cannot be added")
    return found
