"""The content of a report, as values. The page is made of nothing else, so that its JSON holds every number on it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ratchet_kit.statistics import Estimate

PASSED = "PASSED"
OUTCOMES = {
    PASSED: "passed",
    "WRONG": "wrong answer",
    "CRASH": "crash",
    "TIMEOUT": "time limit",
    "MEMORY": "memory limit",
    "NO_CODE": "no code",
    "TAMPERED": "tampered",
    "PLATFORM": "platform fault",
}
"""PASSED, or the name of an eval.v1.FailureClass -> words for people, in the order of bars and tables."""


@dataclass(frozen=True, slots=True)
class Solved:
    """The samples of one problem."""

    passes: int
    samples: int

    @property
    def share(self) -> float:
        return self.passes / self.samples


@dataclass(frozen=True, slots=True)
class Spread:
    """How a quantity of samples is spread: its mean and quantiles."""

    samples: int
    mean: float
    p5: float
    p25: float
    median: float
    p75: float
    p95: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread | None":
        """None where nothing was recorded: no values, or none above 0. Quantiles lie between the nearest two."""
        if not values or max(values) <= 0:
            return None
        ordered = sorted(values)

        def at(share: float) -> float:
            place = share * (len(ordered) - 1)
            low = int(place)
            high = min(low + 1, len(ordered) - 1)
            return ordered[low] + (place - low) * (ordered[high] - ordered[low])

        mean = sum(ordered) / len(ordered)
        return cls(len(ordered), mean, at(0.05), at(0.25), at(0.5), at(0.75), at(0.95))


@dataclass(frozen=True, slots=True)
class Slice:
    name: str
    problems: int
    pass_at_k: Mapping[int, Estimate]


@dataclass(frozen=True, slots=True)
class SetResult:
    """The result of one evaluation on one set of problems."""

    name: str
    version: str
    digest: str
    weight: float
    problems_done: int
    problems_total: int
    pass_at_k: Mapping[int, Estimate]
    """k -> with its 95 % interval."""
    samples: int
    outcomes: Mapping[str, int]
    """Key of OUTCOMES -> samples."""
    forgeable_passes: int
    truncated: int
    slices: Sequence[Slice]
    exclusions: Mapping[str, str]
    """Problem that was not measured -> reason."""
    spreads: Mapping[str, Spread]
    """Quantity of a sample, "tokens" -> its spread; without those that are not recorded."""
    problems: Mapping[str, Solved]


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    id: str
    label: str
    """Differs from those of the report's other evaluations."""
    model: str
    policy_id: str
    state: str
    note: str
    """A sentence, where it is not whole: still running, failed."""
    create_time: str
    """ISO 8601, UTC."""
    seconds: float
    """From its start to its end; 0 while it has none."""
    cost: str
    """In words, with that of 1,000 answers; empty without prices."""
    settings: Mapping[str, str]
    pass_at_k: Mapping[int, Estimate]
    """The difference of the whole score: the sets' weighted mean."""
    sets: Sequence[SetResult]

    def on(self, name: str) -> SetResult | None:
        return next((one for one in self.sets if one.name == name), None)


@dataclass(frozen=True, slots=True)
class PairedSet:
    """Candidate minus baseline on one set, paired by problem."""

    name: str
    problems: int
    clusters: int
    baseline: Estimate
    candidate: Estimate
    difference: Estimate
    p_value: float
    adjusted_p_value: float
    """Corrected for as many sets as are compared."""
    detectable_difference: float
    confidence: float
    gained: Sequence[str]
    """Problems that the candidate solves more often, the largest change first."""
    lost: Sequence[str]


@dataclass(frozen=True, slots=True)
class Paired:
    baseline_id: str
    candidate_id: str
    refused: str
    """Why the two can't be compared; empty where they are."""
    sets: Sequence[PairedSet]


@dataclass(frozen=True, slots=True)
class QualityRow:
    """The quality of one evaluation's samples on one set: docs/quality.md defines each component."""

    evaluation_id: str
    name: str
    samples: int
    components: Mapping[str, Estimate]
    """Component -> mean score over problems, 0 to 1, with its 95 % interval."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Report:
    title: str
    create_time: str
    evaluations: Sequence[EvaluationResult]
    comparisons: Sequence[Paired]
    quality: Sequence[QualityRow] = ()
    notes: Sequence[str] = ()
    """Notes on omitted parts, with the reason."""

    @property
    def set_names(self) -> list[str]:
        """Every set of any evaluation, once."""
        return list(dict.fromkeys(one.name for evaluation in self.evaluations for one in evaluation.sets if one.name))

    def on(self, name: str) -> list[tuple[EvaluationResult, SetResult]]:
        """The evaluations that have a set of this name, with what they found on it."""
        return [(it, found) for it in self.evaluations if (found := it.on(name))]

    def label(self, evaluation_id: str) -> str:
        return next((it.label for it in self.evaluations if it.id == evaluation_id), evaluation_id)

    def to_json(self) -> dict[str, Any]:
        """All of it, for json.dumps."""
        return asdict(self)
