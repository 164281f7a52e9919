"""Stored batches of programs: their states, and the chunks that nodes work them off in. Plain data, no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from ratchet_kit.errors import Aborted, FailedPrecondition, NotFound
from ratchet_kit.work import Held, Priority
from sandbox_service.domain.program import Program

CHUNK = 32
"""Programs that are handed to a node at a time: enough to be worth a message, few enough to go round."""
PLATFORM_ERROR = "PLATFORM_ERROR"
"""In place of a verdict, once the platform has failed a program for the last time."""


class State(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    CANCELLED = "cancelled"

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

    def seen_by(self, caller: str) -> "Batch":
        """Itself. Raises NotFound for anybody but the caller whose batch it is."""
        if caller != self.caller:
            raise NotFound(f"there is no batch {self.id!r}")
        return self

    def succeed(self, now: datetime) -> "Batch":
        self.must_run("succeed")
        return replace(self, state=State.SUCCEEDED, end_time=now)

    def cancel(self, now: datetime) -> "Batch":
        """Raises FailedPrecondition when it has succeeded. Cancelling twice is fine."""
        if self.state is State.CANCELLED:
            return self
        self.must_run("be cancelled")
        return replace(self, state=State.CANCELLED, end_time=now)

    def must_run(self, verb: str) -> None:
        """Raises FailedPrecondition once it has ended."""
        if self.state.ended:
            raise FailedPrecondition(f"batch {self.id} is {self.state} and cannot {verb}")

    def must_have_ended(self, verb: str) -> None:
        """Raises FailedPrecondition while it is running."""
        if not self.state.ended:
            raise FailedPrecondition(f"batch {self.id} is {self.state} and cannot {verb}: cancel it first")


@dataclass(frozen=True, slots=True)
class NewProgram:
    """A program of a batch that is to be created, and the bytes that it is kept as."""

    program: Program
    content: bytes


@dataclass(frozen=True, slots=True)
class Record:
    """The outcome of one program, written once. `content` is the item as it is sent, `verdict` says it for people."""

    index: int
    verdict: str
    content: bytes


@dataclass(frozen=True, slots=True)
class ChunkRef:
    """Some programs of a batch, from the index `first` on."""

    batch_id: str
    first: int

    def __str__(self) -> str:
        """As the queue carries it."""
        return f"{self.batch_id}/{self.first}"

    @classmethod
    def parse(cls, text: str) -> "ChunkRef":
        """Raises NotFound for what is no reference."""
        batch_id, _, first = text.partition("/")
        if not first.isdecimal():
            raise NotFound(f"{text!r} names no chunk of a batch")
        return cls(batch_id, int(first))


@dataclass(frozen=True, slots=True)
class Chunk(Held):
    """A chunk's place in the work: which node has it until when, whether all of it is recorded."""

    ref: ChunkRef
    size: int
    done: bool = False

    def claim(self, owner: str, now: datetime, lease: timedelta) -> "Chunk":
        """Raises Aborted while another node has it, or when nothing of it is left to do."""
        if self.done:
            raise Aborted(f"all programs from {self.ref.first} on of {self.ref.batch_id} are recorded")
        return Held.claim(self, owner, now, lease)

    @property
    def label(self) -> str:
        return f"chunk {self.ref}"


@dataclass(frozen=True, slots=True)
class Claim:
    """A chunk that was claimed, and those of its programs that nothing is recorded for, by index."""

    chunk: Chunk
    priority: Priority
    caller: str
    programs: Mapping[int, bytes] = field(default_factory=dict)

    @property
    def attempts(self) -> int:
        return self.chunk.hold.attempts


def chunks(batch: Batch) -> list[Chunk]:
    starts = range(0, batch.programs_total, CHUNK)
    return [Chunk(ChunkRef(batch.id, first), min(CHUNK, batch.programs_total - first)) for first in starts]
