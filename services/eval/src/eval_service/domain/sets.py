"""The sets of an evaluation, loaded."""

from collections.abc import Sequence
from dataclasses import dataclass

from eval_service.domain.ports import ProblemSet
from eval_service.domain.sample import Sample, SampleKey
from eval_service.domain.score import Facts, ProblemKey
from eval_service.domain.spec import EvaluationSpec
from ratchet_environments import Task
from ratchet_kit.faults import Faults
from ratchet_problems import Problem, fingerprint

_NAMED = 20
"""As many faults a refusal names."""


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


class Sets:
    def __init__(self, spec: EvaluationSpec, sets: Sequence[ProblemSet]) -> None:
        """`sets`: in the order of the spec's suite."""
        self._sets = dict(zip(spec.names, sets, strict=True))
        self._problems = {
            ProblemKey(name, problem.id): problem for name, loaded in self._sets.items() for problem in loaded.problems
        }

    @property
    def loaded(self) -> Sequence[tuple[str, str]]:
        """Digest and version of each."""
        return [(one.digest, one.version) for one in self._sets.values()]

    @property
    def problems(self) -> dict[ProblemKey, Problem]:
        """In order."""
        return self._problems

    def set_of(self, key: ProblemKey) -> ProblemSet:
        return self._sets[key.benchmark]

    def facts(self) -> list[Facts]:
        return [
            Facts(key, problem.structure, fingerprint(problem), slices=(f"difficulty {problem.difficulty}",))
            for key, problem in self._problems.items()
        ]

    def task_of_program(self, sample: Sample) -> tuple[Task, str]:
        """What judges an imported sample, and the program that it is."""
        key = ProblemKey(sample.key.benchmark, sample.key.problem_id)
        problem = self._problems[key]
        program = (
            sample.completion if sample.is_program else self._sets[key.benchmark].program(problem, sample.completion)
        )
        return Task.of(problem, is_program=True), program

    def samples(self, imported: Sequence[Imported], most: int) -> list[Sample]:
        """Raises InvalidArgument for a problem that is not there, and an index of `most` or more."""
        faults = Faults()
        found: list[Sample] = []
        for place, one in enumerate(imported):
            name = one.benchmark or (next(iter(self._sets)) if len(self._sets) == 1 else "")
            known = ProblemKey(name, one.problem_id) in self._problems
            if len(faults.violations) < _NAMED:
                where = faults.under(f"samples[{place}]")
                where.unless(
                    known, "problem_id", f"is no problem of {name or 'a set that it names'}: {one.problem_id!r}"
                )
                where.bounds("index", one.index, at_least=0, below=most)
            found.append(Sample(SampleKey(name, one.problem_id, one.index), one.text, is_program=one.is_program))
        faults.raise_if_any("the samples cannot be added")
        return found
