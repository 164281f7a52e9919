"""A workflow and its life: QUEUED, RUNNING, then SUCCEEDED, REFUSED, FAILED or CANCELLED."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from ratchet_kit.errors import FailedPrecondition, Failure
from ratchet_kit.work import Held, Hold
from ratchet_workflows.kinds import Ending, Kind

MAX_SENTENCE = 2000
"""Characters of a sentence or a line."""


class State(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    REFUSED = "refused"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self not in (State.QUEUED, State.RUNNING)


@dataclass(frozen=True, slots=True)
class Plan:
    kind: Kind
    name: str
    """For people; faults are said by it and a line."""
    text: str
    """YAML that names no files. Empty in lists."""


@dataclass(frozen=True, slots=True)
class Line:
    """Something that was said while it was worked on."""

    number: int
    """From 1."""
    create_time: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Workflow(Held):
    id: str
    plan: Plan
    actor: str
    """The id of the key that created it, for which it acts."""
    create_time: datetime
    model: str = ""
    """The model that a turn makes better."""
    number: int = 0
    """Which turn of the model it is."""
    schedule_id: str = ""
    state: State = State.QUEUED
    sentence: str = ""
    """How it ended, and the reason; the last line before."""
    start_time: datetime | None = None
    end_time: datetime | None = None
    record: Mapping[str, Any] = field(default_factory=dict)
    """`ratchet_workflows.kept`. Empty in lists."""

    @property
    def label(self) -> str:
        return f"workflow {self.id}"

    def check_open(self) -> None:
        if self.state.ended:
            raise FailedPrecondition(f"{self.label} is {self.state}")

    def claim(self, owner: str, now: datetime, lease: timedelta) -> "Workflow":
        """Gives it to a worker. Raises FailedPrecondition when it has ended, Aborted when a living worker has it."""
        return replace(
            Held.claim(self, owner, now, lease), state=State.RUNNING, start_time=self.start_time or now, sentence=""
        )

    def keep(self, owner: str, record: Mapping[str, Any]) -> "Workflow":
        self.check_held(owner)
        return replace(self, record=record)

    def say(self, owner: str, line: str) -> "Workflow":
        self.check_held(owner)
        return replace(self, sentence=line[:MAX_SENTENCE])

    def end(self, owner: str, ending: Ending, now: datetime) -> "Workflow":
        self.check_held(owner)
        return self._end(State(ending.outcome), ending.sentence, now)

    def fail(self, owner: str, failure: Failure, now: datetime) -> "Workflow":
        self.check_held(owner)
        return self._end(State.FAILED, failure.message, now)

    def cancel(self, now: datetime) -> "Workflow":
        """Idempotent. Raises FailedPrecondition when it has ended otherwise."""
        if self.state is State.CANCELLED:
            return self
        self.check_open()
        return self._end(State.CANCELLED, "It was cancelled.", now)

    def resume(self) -> "Workflow":
        """Goes on where it was; one that has not ended stays as it is. Raises FailedPrecondition for one that was
        decided."""
        if not self.state.ended:
            return self
        if self.state not in (State.FAILED, State.CANCELLED):
            raise FailedPrecondition(f"{self.label} is {self.state}: create another one")
        return replace(self, state=State.QUEUED, sentence="", end_time=None, hold=Hold())

    def _end(self, state: State, sentence: str, now: datetime) -> "Workflow":
        hold = Hold(attempts=self.attempts)
        return replace(self, state=state, sentence=sentence[:MAX_SENTENCE], end_time=now, hold=hold)
