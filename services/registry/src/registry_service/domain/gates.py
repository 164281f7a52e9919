"""The gate: the decision, from two evaluations, whether a candidate may replace the champion."""

import math
from dataclasses import dataclass
from datetime import datetime

from ratchet_kit.errors import FailedPrecondition, FieldViolation, InvalidArgument
from registry_service.domain.models import Version


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic with its 95 % confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the gate needs to know of a finished evaluation: which weights it measured, and on what."""

    id: str
    policy_id: str
    problems: str
    """The problem set's name, for sentences."""
    problems_digest: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Candidate minus champion in pass@1, paired by problem."""

    difference: Estimate
    p_value: float
    """Two-sided, paired permutation test."""
    problems: int


@dataclass(frozen=True, slots=True)
class Gate:
    """A stored decision. It never changes; a new decision is a new gate."""

    id: str
    model: str
    candidate_version: int
    champion_version: int
    candidate_evaluation: str
    champion_evaluation: str
    difference: Estimate
    p_value: float
    passed: bool
    reason: str
    min_difference: float
    create_time: datetime


@dataclass(frozen=True, slots=True)
class GateSpec:
    """What a gate is asked to decide. Passing asks that the interval's lower end lies above `min_difference`."""

    model: str
    candidate_version: int
    candidate_evaluation: str
    champion_evaluation: str
    min_difference: float = 0.0

    def __post_init__(self) -> None:
        faults = [
            FieldViolation(name, "must not be empty")
            for name in ("candidate_evaluation", "champion_evaluation")
            if not getattr(self, name)
        ]
        if self.candidate_version < 1:
            faults.append(FieldViolation("candidate_version", "must be 1 or more"))
        if not (math.isfinite(self.min_difference) and -1 <= self.min_difference < 1):
            faults.append(FieldViolation("min_difference", "must be at least -1 and less than 1"))
        if faults:
            raise InvalidArgument("; ".join(f"{fault.field} {fault.description}" for fault in faults), faults)


def check_evidence(candidate: Version, measured: Evaluation, champion: Version, baseline: Evaluation) -> None:
    """Raises FailedPrecondition unless the two evaluations measured exactly these versions, on the same problems."""
    for version, evaluation in ((candidate, measured), (champion, baseline)):
        if evaluation.policy_id != version.policy_id:
            raise FailedPrecondition(
                f"evaluation {evaluation.id} measured the weights {evaluation.policy_id or 'of no known policy'}, "
                f"not those of {version.name} ({version.policy_id})"
            )
    if not measured.problems_digest or measured.problems_digest != baseline.problems_digest:
        raise FailedPrecondition(
            f"evaluations {measured.id} and {baseline.id} were not made on the same problems: "
            f"{_problems(measured)} against {_problems(baseline)}"
        )


def decide(
    id: str, spec: GateSpec, candidate: Version, champion: Version, comparison: Comparison, now: datetime
) -> Gate:
    """The gate's decision and its reason in one sentence."""
    passed = comparison.difference.low > spec.min_difference
    return Gate(
        id=id,
        model=spec.model,
        candidate_version=candidate.number,
        champion_version=champion.number,
        candidate_evaluation=spec.candidate_evaluation,
        champion_evaluation=spec.champion_evaluation,
        difference=comparison.difference,
        p_value=comparison.p_value,
        passed=passed,
        reason=_reason(candidate, champion, comparison, spec.min_difference, passed),
        min_difference=spec.min_difference,
        create_time=now,
    )


def _reason(candidate: Version, champion: Version, comparison: Comparison, asked: float, passed: bool) -> str:
    difference = comparison.difference
    evidence = (
        f"{candidate.name} minus {champion.name} is {difference.value:+.3f} in pass@1 "
        f"over {comparison.problems} problems "
        f"(95 % interval {difference.low:+.3f} to {difference.high:+.3f}, p = {comparison.p_value:.2g})"
    )
    if passed:
        return f"Passed: {evidence}, and the lower end lies above the {asked:+.3f} that was asked for."
    return f"Refused: {evidence}, and the lower end does not lie above the {asked:+.3f} that was asked for."


def _problems(evaluation: Evaluation) -> str:
    return f"{evaluation.problems or 'an unnamed set'} ({evaluation.problems_digest[:19] or 'no digest'})"
