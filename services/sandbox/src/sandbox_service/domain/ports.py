"""The ports of the domain: lanes to run jobs, cages that last, a meter, a store for batches."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from ratchet_kit.idempotency import Request
from ratchet_kit.work import Priority, Waiting
from sandbox_service.domain.batch import Batch, Chunk, ChunkRef, Claim, Record
from sandbox_service.domain.capabilities import Capabilities
from sandbox_service.domain.execution import Execution
from sandbox_service.domain.jobs import Job, Report
from sandbox_service.domain.levels import Level
from sandbox_service.domain.signs import Sighting
from sandbox_service.domain.workspace import Command, Exit, Output, Relayed, Usage, WorkspaceSpec

_T = TypeVar("_T")


class Executor(Protocol):
    """Runs jobs, each in isolation, at most `capabilities.lanes` at a time."""

    @property
    def capabilities(self) -> Capabilities: ...

    async def describe(self) -> Capabilities:
        """As `capabilities`, with all versions."""
        ...

    async def fork_limit(self, count: int) -> float:
        """Bare forks and exits a second, `count` in all, on all lanes at a time, by what forks the programs: no sandbox
        that gives each program a process of its own can be faster. Raises Unavailable if the platform failed."""
        ...

    async def run(self, job: Job) -> Report:
        """Whatever the program does is in the report. Raises Unavailable if the platform failed.

        Raises Unimplemented for a runtime or language that isn't here, FailedPrecondition where processes can't be
        held.

        Nothing of the job is left afterwards, also when it's cancelled.
        """
        ...


class Overrun(Exception):
    """Work took more than the time or the memory that there is for it."""


class Aside(Protocol):
    """Does what may take long, without holding up others."""

    async def __call__(self, function: Callable[..., _T], *arguments: object) -> _T:
        """What the function gives; all can be sent to another process. Raises Overrun, Unavailable."""
        ...


class Lanes(Protocol):
    """Where programs run, seen from outside. The counts can be read from any thread."""

    @property
    def lanes_up(self) -> int: ...

    @property
    def lanes_busy(self) -> int: ...

    async def leftovers(self) -> list[str]:
        """What is there and shouldn't be, in words: processes, mounts, cgroups, folders of lanes that idle."""
        ...


class Pool(Executor, Lanes, Protocol):
    """An executor whose lanes can be seen from outside."""


class CageLost(Exception):
    """The processes of a workspace are gone, and its files with them. Its text is the reason."""


class Cage(Protocol):
    """The processes and files of one workspace. One call at a time, but for `stop`."""

    @property
    def level(self) -> Level: ...

    @property
    def layers(self) -> Sequence[str]: ...

    @property
    def is_up(self) -> bool: ...

    def run(self, command: Command, given: AsyncIterator[bytes | Relayed]) -> AsyncGenerator[Output | Relayed | Exit]:
        """Output as it comes, then one Exit. `given`: its input, or with a relay the caller's pieces. Closed or
        cancelled, it kills what it started. Raises CageLost, FailedPrecondition where there can be no relay."""
        ...

    async def write(self, folder: str, archive: AsyncIterator[bytes]) -> Usage:
        """Unpacks a tar below a folder of the workspace, and follows no link. Raises InvalidArgument for one that can't
        be unpacked, ResourceExhausted where it does not fit, CageLost."""
        ...

    def read(self, names: Sequence[str], changed: bool = False) -> AsyncGenerator[bytes]:
        """A tar of what has these names, links as links; `changed`: of what differs from its image, if it has one, with
        `.wh.NAME` for what was removed. Raises InvalidArgument for what isn't there, CageLost."""
        ...

    async def stop(self) -> None:
        """Nothing of it is left when it returns. Whoever waits for another call gets CageLost."""
        ...


class Cages(Protocol):
    """Makes cages that last."""

    async def make(self, spec: WorkspaceSpec) -> Cage:
        """Raises Unimplemented for a runtime that isn't here, FailedPrecondition below the least level, Unavailable."""
        ...


class Meter(Protocol):
    """Counts what happens, for those who watch the service."""

    def executed(
        self, execution: Execution, waited: timedelta, graded: timedelta, hidden: Sequence[Sighting] = ()
    ) -> None:
        """`hidden`: signs of cheating in held-out tests, of which the execution says nothing."""
        ...

    def faulted(self) -> None: ...

    def queued(self, priority: Priority, waiting: int) -> None: ...

    def refused(self) -> None: ...


class BatchStore(Protocol):
    """Batches, their programs and their records. Any method raises Unavailable while the store cannot be reached."""

    async def create(self, batch: Batch, programs: Sequence[bytes], request: Request) -> Batch:
        """Stores it with its programs and chunks, or returns the one that was stored under the request before.

        Raises AlreadyExists when another one was asked for under the request's id.
        """
        ...

    async def find(self, request: Request) -> Batch | None:
        """The batch of the request. Raises AlreadyExists as `create` does."""
        ...

    async def get(self, id: str) -> Batch:
        """Raises NotFound."""
        ...

    async def page(self, caller: str, limit: int, after: str | None) -> Sequence[Batch]:
        """The caller's, newest first: those made before the batch whose id is `after`, or from the newest on."""
        ...

    async def change(self, id: str, change: Callable[[Batch], Batch]) -> Batch:
        """Reads it, applies the change and writes the result, with no other change in between.

        Raises NotFound, and whatever `change` raises; nothing is written then.
        """
        ...

    async def delete(self, id: str) -> None:
        """With its programs and records. Raises NotFound, FailedPrecondition while it is running."""
        ...

    async def claim(self, ref: ChunkRef, owner: str, now: datetime, lease: timedelta) -> Claim:
        """Raises NotFound, FailedPrecondition when the batch has ended, Aborted as Chunk.claim does."""
        ...

    async def change_chunk(self, ref: ChunkRef, change: Callable[[Chunk], Chunk]) -> Chunk:
        """As `change`. Raises FailedPrecondition when the batch has ended."""
        ...

    async def record(self, id: str, records: Sequence[Record]) -> int:
        """Records what is not recorded yet, and leaves what is as it is. Returns how many were new.

        Raises NotFound, FailedPrecondition when the batch has ended.
        """
        ...

    async def finish(self, ref: ChunkRef, now: datetime) -> Batch:
        """Marks the chunk as done when all of it is recorded, and the batch as succeeded when all its chunks are done.

        No error when there is nothing to mark. Raises NotFound.
        """
        ...

    async def recorded(self, id: str, first: int) -> Sequence[int]:
        """The indices from `first` on that have a record, in order."""
        ...

    async def records(self, id: str, indices: Sequence[int]) -> Sequence[Record]:
        """Those of the indices that there are, in order."""
        ...

    async def waiting(self, now: datetime, limit: int) -> Sequence[Waiting]:
        """The oldest chunks of running batches that are not done and that no living node has. Ids are ChunkRefs."""
        ...

    async def forget(self, before: datetime) -> int:
        """Deletes batches that ended before, with their programs and records. Returns how many."""
        ...
