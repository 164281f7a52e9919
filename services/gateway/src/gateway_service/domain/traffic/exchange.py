"""A prompt and its answers, kept by consent of the key that asked, with what people said of them."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from gateway_service.domain.traffic.material import Material
from gateway_service.domain.traffic.record import Arm, CompletionRecord, ProblemRef
from ratchet_kit.names import VersionRef

MAX_CHOICES = 8
"""Of one completion."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What was used in the end in place of an answer."""

    text: str
    index: int = 0
    """Of the answer."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer is better than another to the same prompt."""

    index: int
    """Of the better answer, in the exchange that has the choice."""
    over_id: str
    """The exchange of the worse one, which may be the same."""
    over_index: int


@dataclass(frozen=True, slots=True)
class Exchange:
    """What is kept of a completion to learn from. It outlives the completion's record."""

    id: str
    """The completion's."""
    start_time: datetime
    version: VersionRef
    arm: Arm
    key_id: str
    material: Material
    policy_id: str = ""
    release_id: str = ""
    experiment_id: str = ""
    variant: str = ""
    user: str = ""
    """As `unit_id` gives it; so is the session."""
    session: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency: timedelta = timedelta(0)
    """From the request to the last token; 0 for what an earlier version kept."""
    score: float | None = None
    problem: ProblemRef | None = None
    accepted: Accepted | None = None
    choices: tuple[Choice, ...] = ()

    @classmethod
    def of(cls, record: CompletionRecord) -> "Exchange":
        """Of a record whose material is redacted."""
        assert record.material is not None, "the record has material"
        assert record.material.is_redacted, "what is not redacted is never written"
        return cls(
            id=record.id,
            start_time=record.start_time,
            version=record.version,
            arm=record.arm,
            key_id=record.key_id,
            material=record.material,
            policy_id=record.policy_id,
            release_id=record.release_id,
            experiment_id=record.experiment_id,
            variant=record.variant,
            user=record.user,
            session=record.session,
            prompt_tokens=record.prompt_tokens,
            completion_tokens=record.completion_tokens,
            latency=record.latency,
        )

    @property
    def characters(self) -> int:
        return self.material.characters + (len(self.accepted.text) if self.accepted else 0)

    def answer(self, index: int) -> str | None:
        """The text of an answer; None where there is none of that index, and for one that calls tools."""
        if index >= len(self.material.answers) or self.material.answers[index].tool_calls:
            return None
        return self.material.answers[index].content

    @property
    def is_compared(self) -> bool:
        """It has a choice, or an accepted text that is not the answer."""
        return bool(self.choices) or self.is_edited

    @property
    def is_edited(self) -> bool:
        """What was accepted is not what was answered."""
        return self.accepted is not None and self.accepted.text != self.answer(self.accepted.index)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which exchanges are listed: each field narrows it, when it is set."""

    model: str = ""
    key_id: str = ""
    start_time: datetime | None = None
    """From this time on."""
    end_time: datetime | None = None
    """Before this time."""
    session: str = ""
    """As the requests named it."""
    accepted: bool = False
    """Only those with an accepted text."""
    compared: bool = False
    """Only those with a choice, or with an accepted text that is not the answer."""
