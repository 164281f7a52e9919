"""The ports of runs: where they are stored, and who is told of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from ratchet_kit.idempotency import Request
from trainer_service.domain.run.checkpoint import Checkpoint
from trainer_service.domain.run.run import Run, RunId, State, Step


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are meant; an empty field leaves it open."""

    state: State | None = None
    model: str = ""
    """Name of the model that they start from, or make a version of."""
    name: str = ""
    """Part of the display name, in any case."""
    after_time: datetime | None = None
    """When the oldest was created."""


class RunStore(Protocol):
    """The truth about runs. Every method raises Unavailable when the database cannot be reached."""

    async def create(self, run: Run, request: Request) -> Run:
        """Stores a new run, or returns the one that the request made before.

        Raises:
            AlreadyExists: the request's id was used for another spec.
        """
        ...

    async def made_by(self, request: Request) -> Run | None:
        """The run that the request made, None when there is none. Raises AlreadyExists like `create`."""
        ...

    async def get(self, id: RunId) -> Run:
        """Raises NotFound."""
        ...

    async def page(self, limit: int, after: str | None, only: RunFilter = RunFilter()) -> Sequence[Run]:
        """Runs by id, the newest first, behind the one whose id is `after`."""
        ...

    async def unfinished(self) -> Sequence[Run]:
        """All runs in a state that is not final, the oldest first."""
        ...

    async def tracked(self) -> Sequence[Run]:
        """Runs that a tracker has not had all of, the oldest first."""
        ...

    async def counts(self) -> Mapping[State, int]:
        """How many runs are in each state."""
        ...

    async def delete(self, id: RunId) -> None:
        """Deletes the run, its steps and its checkpoints. Raises NotFound."""
        ...

    async def change(self, id: RunId, change: Callable[[Run], Run]) -> Run:
        """Stores what `change` makes of the run, which no one else changes meanwhile, and returns it.

        Raises NotFound, and whatever `change` raises: then nothing is stored.
        """
        ...

    async def arrange(self, change: Callable[[Sequence[Run]], Sequence[Run]]) -> Sequence[Run]:
        """Stores those that `change` makes of all unfinished runs, the oldest first, which no one else changes
        meanwhile; returns them."""
        ...

    async def record_step(self, id: RunId, step: Step, change: Callable[[Run, Step | None], Run]) -> Run:
        """Like `change`, with the step stored in the same transaction. `change` gets what its number held before."""
        ...

    async def record_checkpoint(
        self, id: RunId, checkpoint: Checkpoint, change: Callable[[Run, Sequence[Checkpoint]], Run]
    ) -> Run:
        """Like `change`, with the checkpoint stored too. `change` gets all of the run's, the new one included."""
        ...

    async def change_checkpoint(
        self,
        id: RunId,
        step: int,
        change: Callable[[Checkpoint], Checkpoint],
        then: Callable[[Run, Sequence[Checkpoint]], Run],
    ) -> Run:
        """Stores what `change` makes of a checkpoint, adds its `metrics` to those of its step, and stores what `then`
        makes of the run and all of its checkpoints. Raises NotFound, and whatever the two raise: then nothing is
        stored."""
        ...

    async def steps(self, id: RunId, limit: int, after: int) -> Sequence[Step]:
        """Steps with numbers above `after`, in order; none for a run that is not there."""
        ...

    async def superseded(self, before: datetime) -> Sequence[tuple[RunId, Checkpoint]]:
        """Of the runs that ended before then, the checkpoints that are not the best of their run."""
        ...

    async def delete_checkpoint(self, id: RunId, step: int) -> None:
        """One that is not the best. None that is there is fine."""
        ...

    async def checkpoints(self, id: RunId, limit: int, after: int) -> Sequence[Checkpoint]:
        """Checkpoints of steps above `after`, in order; none for a run that is not there."""
        ...


@dataclass(frozen=True, slots=True)
class RunFile:
    name: str
    """A path below the run's record, with slashes."""
    size_bytes: int


class RunFiles(Protocol):
    """What jobs put on record for people to read (job/run/record.py)."""

    async def files(self, id: RunId) -> Sequence[RunFile]:
        """By name; none where there is no record."""
        ...

    async def read(self, id: RunId, name: str, offset: int, limit: int) -> bytes:
        """Bytes of a file that `files` named. Raises NotFound."""
        ...


class Events(Protocol):
    """Publishes changes of runs. Best effort: raises nothing."""

    async def changed(self, run: Run) -> None: ...


class Meter(Protocol):
    """Counts for operators. Both are told of all there is, now and then: of several replicas each says the same."""

    def states(self, counts: Mapping[State, int]) -> None:
        """How many runs are in each state now."""
        ...

    def unfinished(self, runs: Sequence[Run], steps: Mapping[RunId, Step]) -> None:
        """All that go on now, with the last step of each that has one; what was said of others no longer holds."""
        ...
