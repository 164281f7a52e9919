"""The gate: the decision, from two evaluations, whether a candidate may replace the champion.

    PENDING --decide--> PASSED or REFUSED
       |
       +-----fail-----> FAILED

A decided gate never changes; a new decision is a new gate.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from ratchet_kit.errors import FailedPrecondition, Failure
from ratchet_kit.faults import Faults
from ratchet_kit.names import VersionRef
from ratchet_kit.statistics import LARGEST_CONCESSION, Comparison
from ratchet_kit.work import FREE, Held
from registry_service.domain.evidence import Evidence
from registry_service.domain.gate_rules import GateRules, GuardResult, Question, judge


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
class GateSpec:
    """What a gate is asked to decide. To pass, the interval's lower end must lie above `min_difference`, and the rules
    must hold."""

    candidate: VersionRef
    candidate_evaluation_id: str
    champion_evaluation_id: str
    min_difference: float = 0.0
    rules: GateRules = field(default_factory=GateRules)

    def check(self) -> None:
        """Raises InvalidArgument that names every field at fault."""
        faults = Faults()
        faults.required("candidate_evaluation_id", self.candidate_evaluation_id)
        faults.required("champion_evaluation_id", self.champion_evaluation_id)
        faults.bounds("min_difference", self.min_difference, at_least=-LARGEST_CONCESSION, below=1)
        self.rules.check(faults)
        faults.raise_if_any()


@dataclass(frozen=True, slots=True)
class Gate(Held):
    id: str
    spec: GateSpec
    champion: VersionRef
    """The champion when the gate was made."""
    create_time: datetime
    state: State = State.PENDING
    comparison: Comparison | None = None
    """Of a decided gate. The champion is the baseline."""
    reason: str = ""
    """The decision in plain words."""
    guards: tuple[GuardResult, ...] = ()
    """Of a decided gate, in the rules' order."""
    tries: int = 0
    """How many comparisons could have been gated on these problems, this one included; 0 while it is not known."""
    failure: Failure | None = None
    end_time: datetime | None = None

    def decide(self, owner: str, evidence: Evidence, now: datetime) -> "Gate":
        """PASSED or REFUSED, with the reason."""
        self.check_held(owner)
        question = Question(str(self.spec.candidate), str(self.champion), self.spec.min_difference, evidence.tries)
        judgement = judge(question, self.spec.rules, evidence.comparisons)
        return replace(
            self,
            state=State.PASSED if judgement.passed else State.REFUSED,
            comparison=evidence.comparisons.of(self.spec.rules.target),
            reason=judgement.reason + evidence.caveat,
            guards=judgement.guards,
            tries=evidence.tries,
            end_time=now,
            hold=FREE,
        )

    def fail(self, owner: str, failure: Failure, now: datetime) -> "Gate":
        self.check_held(owner)
        return replace(self, state=State.FAILED, failure=failure, end_time=now, hold=FREE)

    @property
    def label(self) -> str:
        return f"gate {self.id}"

    def check_open(self) -> None:
        if self.state.is_final:
            raise FailedPrecondition(f"{self.label} is {self.state}")
