"""The scores of an evaluation, from its counts: whole, by set, by difficulty and tag. Pure."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from eval_service.domain.sample import FailureClass, ProblemKey
from eval_service.domain.spec import EvaluationSpec, SuiteEntry
from eval_service.domain.statistics import Tally, estimate_pass_at_k
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.statistics import Estimate
from ratchet_rewards import PASSED, TAMPERED

_NAMED = 5
"""As many problems a sentence names."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What an evaluation keeps of a problem beside its samples."""

    key: ProblemKey
    family: str = ""
    """Problems of one family are no independent evidence; empty: it stands alone."""
    fingerprint: str = ""
    """What tells whether a training set has the same problem."""
    slices: tuple[str, ...] = ()
    """The parts of the set that it is of: "difficulty 3", "tag graphs", "strict grading"."""
    excluded: str = ""
    """Why it is not measured; empty: it is."""
    tests: str = ""
    """Fingerprint of its tests: the same problem, reworded, has them too."""


@dataclass(frozen=True, slots=True)
class Count:
    """How many samples of a problem are alike."""

    key: ProblemKey
    verdict: str
    """Empty: not judged yet."""
    failure: FailureClass | None
    forgeable: bool
    samples: int


@dataclass(frozen=True, slots=True)
class PassAtK:
    k: int
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Slice:
    name: str
    problems: int
    pass_at_k: tuple[PassAtK, ...]


@dataclass(frozen=True, slots=True)
class Exclusion:
    problem_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class BenchmarkScore:
    """Of one set. Samples of excluded problems count nowhere."""

    name: str
    problems_done: int
    problems_total: int
    pass_at_k: tuple[PassAtK, ...] = ()
    """Of the problems that have at least k samples."""
    samples: int = 0
    """Judged ones."""
    verdicts: Mapping[str, int] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)
    forgeable_passes: int = 0
    slices: tuple[Slice, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()
    shared: tuple[str, ...] = ()
    """Problems whose tests ran in the program's process; in order."""


@dataclass(frozen=True, slots=True)
class EpisodeMeans:
    """Means of one episode of a task folder."""

    turns: float
    tool_errors: float
    tokens: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Score:
    pass_at_k: tuple[PassAtK, ...]
    """The sets' weighted mean; empty while one has no problem with as many samples."""
    benchmarks: tuple[BenchmarkScore, ...]
    episodes: EpisodeMeans | None = None
    """None until all are judged, and where samples are no episodes of task folders."""

    @property
    def problems_done(self) -> int:
        return sum(one.problems_done for one in self.benchmarks)

    @property
    def problems_total(self) -> int:
        return sum(one.problems_total for one in self.benchmarks)

    @property
    def samples(self) -> int:
        return sum(one.samples for one in self.benchmarks)

    @property
    def forgeable_passes(self) -> int:
        return sum(one.forgeable_passes for one in self.benchmarks)

    @property
    def verdicts(self) -> Mapping[str, int]:
        return dict(sum((Counter(one.verdicts) for one in self.benchmarks), Counter()))


def tallies(facts: Iterable[Facts], counts: Iterable[Count]) -> dict[ProblemKey, Tally]:
    """Of each problem that is measured and has judged samples."""
    known = {one.key: one for one in facts}
    found: dict[ProblemKey, Tally] = {}
    for count in counts:
        fact = known.get(count.key) or Facts(count.key)
        if fact.excluded or not count.verdict:
            continue
        before = found.get(count.key) or Tally(0, 0, fact.family)
        found[count.key] = Tally(
            before.samples + count.samples,
            before.passed + count.samples * (count.verdict == PASSED),
            fact.family,
            before.tampered + count.samples * (count.verdict == TAMPERED),
        )
    return found


def score(spec: EvaluationSpec, facts: Sequence[Facts], counts: Sequence[Count], *, ended: bool = False) -> Score:
    """Of the samples that are there. `ended`: no more will come, so that scores of parts are worth their time, and
    what was not judged is the platform's fault."""
    judged = tallies(facts, counts)
    sets = tuple(_of_set(spec, entry, facts, counts, judged, ended) for entry in spec.suite)
    whole: list[PassAtK] = []
    for k in spec.k:
        parts = [next((item.estimate for item in one.pass_at_k if item.k == k), None) for one in sets]
        present = [(entry.weight, part) for entry, part in zip(spec.suite, parts, strict=True) if part]
        if len(present) == len(sets):
            whole.append(PassAtK(k, weighted(present)))
    return Score(tuple(whole), sets)


def check_complete(spec: EvaluationSpec, facts: Sequence[Facts], counts: Sequence[Count]) -> None:
    """Raises FailedPrecondition where a problem has fewer samples than the largest k, or a set none to measure."""
    judged, most = tallies(facts, counts), max(spec.k)
    for name in spec.names:
        measured = [fact.key for fact in facts if fact.key.benchmark == name and not fact.excluded]
        if not measured:
            raise FailedPrecondition(f"{name} has no problem that can be measured")
        few = [key for key in measured if (judged[key].samples if key in judged else 0) < most]
        if few:
            raise FailedPrecondition(
                f"pass@{most} needs {most} samples of each problem; {len(few)} of {name} have fewer:"
                f" {_some(key.problem_id for key in few)}"
            )


def weighted(parts: Sequence[tuple[float, Estimate]], *, least: float = 0.0) -> Estimate:
    """The weighted mean of independent estimates between `least` and 1, with its interval: that of a linear function of
    them by their own intervals (MOVER; Zou and Donner 2008, Statistics in Medicine 27, equation 3)."""
    total = sum(weight for weight, _ in parts)
    value = sum(weight * part.value for weight, part in parts) / total
    below = math.sqrt(sum((weight * (part.value - part.low)) ** 2 for weight, part in parts)) / total
    above = math.sqrt(sum((weight * (part.high - part.value)) ** 2 for weight, part in parts)) / total
    return Estimate(value, max(least, value - below), min(1.0, value + above))


def _of_set(
    spec: EvaluationSpec,
    entry: SuiteEntry,
    facts: Sequence[Facts],
    counts: Sequence[Count],
    judged: Mapping[ProblemKey, Tally],
    ended: bool,
) -> BenchmarkScore:
    name = entry.problems.name
    own = [fact for fact in facts if fact.key.benchmark == name]
    excluded = {fact.key for fact in own if fact.excluded}
    counted = [count for count in counts if count.key.benchmark == name and count.key not in excluded]
    mine = {key: tally for key, tally in judged.items() if key.benchmark == name}
    waiting = Counter({count.key: count.samples for count in counted if not count.verdict})
    verdicts: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    for count in counted:
        if count.verdict:
            verdicts[count.verdict] += count.samples
        if count.failure:
            failures[str(count.failure)] += count.samples
    if ended and waiting:
        failures[str(FailureClass.PLATFORM)] += waiting.total()
    wanted = 1 if spec.imported_samples else spec.samples_per_problem
    shared = {count.key for count in counted if count.forgeable}
    own = [replace(fact, slices=(*fact.slices, *_kinds(fact.key, mine, shared))) for fact in own]
    slices = _parts(own) if ended else []
    return BenchmarkScore(
        name=name,
        problems_done=sum(tally.samples >= wanted and not waiting[key] for key, tally in mine.items()),
        problems_total=len(own) - len(excluded) if own else len(mine),
        pass_at_k=_estimates(spec.k, mine.values()),
        samples=verdicts.total(),
        verdicts=dict(verdicts),
        failures=dict(failures),
        forgeable_passes=sum(one.samples for one in counted if one.forgeable and one.verdict == PASSED),
        slices=tuple(_slice(spec, part, own, mine) for part in slices),
        exclusions=tuple(Exclusion(fact.key.problem_id, fact.excluded) for fact in own if fact.excluded),
        shared=tuple(sorted(key.problem_id for key in shared)),
    )


def _kinds(key: ProblemKey, judged: Collection[ProblemKey], shared: Collection[ProblemKey]) -> tuple[str, ...]:
    """Of a set that is graded in both kinds, the part that the problem is of."""
    if key not in judged or not 0 < len(shared) < len(judged):
        return ()
    return ("shared grading",) if key in shared else ("strict grading",)


def _parts(facts: Sequence[Facts]) -> list[str]:
    """The slices that are not all of the set."""
    sizes = Counter(part for fact in facts for part in fact.slices)
    return sorted(part for part, size in sizes.items() if size < len(facts))


def _slice(spec: EvaluationSpec, name: str, facts: Sequence[Facts], judged: Mapping[ProblemKey, Tally]) -> Slice:
    found = [judged[fact.key] for fact in facts if name in fact.slices and fact.key in judged]
    return Slice(name, len(found), _estimates(spec.k, found))


def _estimates(ks: Sequence[int], judged: Iterable[Tally]) -> tuple[PassAtK, ...]:
    found = list(judged)
    fit = {k: [tally for tally in found if tally.samples >= k] for k in ks}
    return tuple(PassAtK(k, estimate_pass_at_k(fit[k], k)) for k in ks if fit[k])


def _some(ids: Iterable[str]) -> str:
    found = list(ids)
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return ", ".join(found[:_NAMED]) + more
