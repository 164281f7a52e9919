"""The gate: the decision, from two evaluations, whether a candidate may replace the champion.

    PENDING --decide--> PASSED or REFUSED
       |
       +-----fail-----> FAILED

A decided gate never changes; a new decision is a new gate.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from ratchet_kit.errors import FailedPrecondition, Failure
from ratchet_kit.faults import Faults
from ratchet_kit.names import VersionRef
from ratchet_kit.statistics import Comparison
from ratchet_kit.work import FREE, Hold
from registry_service.domain.version import Version


class State(StrEnum):
    PENDING = "pending"
    PASSED = "passed"
    REFUSED = "refused"
    """The evidence does not show the gain that was asked for."""
    FAILED = "failed"
    """It could not be decided."""

    @property
    def is_final(self) -> bool:
        return self is not State.PENDING


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the gate needs to know of a finished evaluation: which weights it measured, and on what."""

    id: str
    policy_id: str
    problems: str
    """The problem set's name, for sentences."""
    problems_digest: str


@dataclass(frozen=True, slots=True)
class GateSpec:
    """What a gate is asked to decide. To pass, the interval's lower end must lie above `min_difference`."""

    candidate: VersionRef
    candidate_evaluation_id: str
    champion_evaluation_id: str
    min_difference: float = 0.0

    def check(self) -> None:
        """Raises InvalidArgument that names every field at fault."""
        faults = Faults()
        faults.required("candidate_evaluation_id", self.candidate_evaluation_id)
        faults.required("champion_evaluation_id", self.champion_evaluation_id)
        faults.bounds("min_difference", self.min_difference, at_least=-1, below=1)
        faults.raise_if_any()


@dataclass(frozen=True, slots=True)
class Gate:
    id: str
    spec: GateSpec
    champion: VersionRef
    """The champion when the gate was made."""
    create_time: datetime
    state: State = State.PENDING
    comparison: Comparison | None = None
    """Of a decided gate. The champion is the baseline."""
    reason: str = ""
    """One sentence about the decision."""
    failure: Failure | None = None
    end_time: datetime | None = None
    hold: Hold = FREE

    @property
    def attempts(self) -> int:
        return self.hold.attempts

    def claim(self, owner: str, now: datetime, lease: timedelta) -> "Gate":
        """Raises FailedPrecondition when it is not PENDING, Aborted while another worker has it. So do the others,
        where `owner` does not hold it."""
        self._must_be_pending()
        return replace(self, hold=self.hold.claim(f"gate {self.id}", owner, now, lease))

    def renew(self, owner: str, now: datetime, lease: timedelta) -> "Gate":
        self._must_be_pending()
        return replace(self, hold=self.hold.renew(f"gate {self.id}", owner, now, lease))

    def release(self, owner: str, *, attempted: bool) -> "Gate":
        self._must_be_pending()
        return replace(self, hold=self.hold.release(f"gate {self.id}", owner, attempted=attempted))

    def decide(self, owner: str, comparison: Comparison, now: datetime) -> "Gate":
        """PASSED or REFUSED, with the reason in one sentence."""
        self._must_be_pending()
        self.hold.check(f"gate {self.id}", owner)
        passed = comparison.difference.low > self.spec.min_difference
        return replace(
            self,
            state=State.PASSED if passed else State.REFUSED,
            comparison=comparison,
            reason=self._reason(comparison, passed),
            end_time=now,
            hold=FREE,
        )

    def fail(self, owner: str, failure: Failure, now: datetime) -> "Gate":
        self._must_be_pending()
        self.hold.check(f"gate {self.id}", owner)
        return replace(self, state=State.FAILED, failure=failure, end_time=now, hold=FREE)

    def _must_be_pending(self) -> None:
        if self.state.is_final:
            raise FailedPrecondition(f"gate {self.id} is {self.state}")

    def _reason(self, comparison: Comparison, passed: bool) -> str:
        difference, wanted = comparison.difference, f"the {self.spec.min_difference:+.3f} that was asked for"
        evidence = (
            f"{self.spec.candidate} minus {self.champion} is {difference.value:+.3f} in pass@1 "
            f"over {comparison.problems} problems "
            f"(95 % interval {difference.low:+.3f} to {difference.high:+.3f}, p = {comparison.p_value:.2g})"
        )
        if passed:
            return f"Passed: {evidence}, and the lower end lies above {wanted}."
        return f"Refused: {evidence}, and the lower end does not lie above {wanted}."


def check_evidence(candidate: Version, measured: Evaluation, champion: Version, baseline: Evaluation) -> None:
    """Raises FailedPrecondition unless the two evaluations measured exactly these versions, on the same problems."""
    for version, evaluation in ((candidate, measured), (champion, baseline)):
        if evaluation.policy_id != version.policy_id:
            raise FailedPrecondition(
                f"evaluation {evaluation.id} measured the weights {evaluation.policy_id or 'of no known policy'}, "
                f"not those of {version.ref} ({version.policy_id})"
            )
    if not measured.problems_digest or measured.problems_digest != baseline.problems_digest:
        raise FailedPrecondition(
            f"evaluations {measured.id} and {baseline.id} were not made on the same problems: "
            f"{_problems(measured)} against {_problems(baseline)}"
        )


def _problems(evaluation: Evaluation) -> str:
    return f"{evaluation.problems or 'an unnamed set'} ({evaluation.problems_digest[:19] or 'no digest'})"
