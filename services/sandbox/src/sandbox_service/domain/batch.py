"""Batches of programs that are kept: their states, the chunks that they are worked off in. Plain data, no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from ratchet_kit.errors import Aborted, FailedPrecondition
from sandbox_service.domain.program import Program
from sandbox_service.domain.queue import Priority

CHUNK = 32
"""Programs that are handed to a node at a time: enough to be worth a message, few enough to go round."""
PLATFORM_ERROR = "PLATFORM_ERROR"
"""In place of a verdict, once the platform has failed a program for the last time."""


class State(StrEnum):
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    CANCELLED = "CANCELLED"

    @property
    def ended(self) -> bool:
        return self is not State.RUNNING


@dataclass(frozen=True, slots=True)
class Batch:
    """`programs_done` counts what is recorded: it is read, and never stored."""

    id: str
    programs_total: int
    create_time: datetime
    priority: Priority = Priority.NORMAL
    caller: str = ""
    state: State = State.RUNNING
    end_time: datetime | None = None
    programs_done: int = 0

    def succeed(self, now: datetime) -> "Batch":
        self.must_run("succeed")
        return replace(self, state=State.SUCCEEDED, end_time=now)

    def cancel(self, now: datetime) -> "Batch":
        """Raises FailedPrecondition when it has succeeded. Cancelling twice is fine."""
        if self.state is State.CANCELLED:
            return self
        self.must_run("be cancelled")
        return replace(self, state=State.CANCELLED, end_time=now)

    def must_run(self, what: str) -> None:
        """Raises FailedPrecondition once it has ended."""
        if self.state.ended:
            raise FailedPrecondition(f"batch {self.id} is {self.state} and cannot {what}")


@dataclass(frozen=True, slots=True)
class Asked:
    """A program that was asked for, and the bytes that it is kept as."""

    program: Program
    content: bytes


@dataclass(frozen=True, slots=True)
class Record:
    """What became of one program, written once. `content` is the item as it is sent, `verdict` says it for people."""

    index: int
    verdict: str
    content: bytes


@dataclass(frozen=True, slots=True)
class ChunkRef:
    """Some programs of a batch, from the index `first` on."""

    batch_id: str
    first: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk's place in the work: who has it until when, how often it was begun, whether all of it is recorded."""

    ref: ChunkRef
    size: int
    owner: str = ""
    until: datetime | None = None
    attempts: int = 0
    done: bool = False

    def claim(self, owner: str, now: datetime, until: datetime) -> "Chunk":
        """Raises Aborted while another node has it, or when nothing of it is left to do."""
        if self.done:
            raise Aborted(f"all programs from {self.ref.first} on of {self.ref.batch_id} are recorded")
        if self.owner not in ("", owner) and self.until is not None and now < self.until:
            raise Aborted(f"programs from {self.ref.first} on of {self.ref.batch_id} are with {self.owner}")
        return replace(self, owner=owner, until=until, attempts=self.attempts + 1)

    def renew(self, owner: str, until: datetime) -> "Chunk":
        """Raises Aborted when another node has it by now."""
        self._must_be_with(owner)
        return replace(self, until=until)

    def release(self, owner: str, *, attempted: bool) -> "Chunk":
        """To be claimed by anyone. `attempted` is false where this node only had no time left for it.

        Raises Aborted when another node has it by now.
        """
        self._must_be_with(owner)
        return replace(self, owner="", until=None, attempts=self.attempts - (not attempted))

    def _must_be_with(self, owner: str) -> None:
        if self.owner != owner:
            raise Aborted(f"programs from {self.ref.first} on of {self.ref.batch_id} are no longer with {owner}")


@dataclass(frozen=True, slots=True)
class Claim:
    """A chunk that was claimed, and those of its programs that nothing is recorded for, by index."""

    chunk: Chunk
    priority: Priority
    caller: str
    programs: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A chunk that no node has, and how urgent it is."""

    ref: ChunkRef
    priority: Priority


def chunks(batch: Batch) -> list[Chunk]:
    starts = range(0, batch.programs_total, CHUNK)
    return [Chunk(ChunkRef(batch.id, first), min(CHUNK, batch.programs_total - first)) for first in starts]
