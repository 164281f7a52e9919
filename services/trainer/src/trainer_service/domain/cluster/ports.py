"""The ports of the cluster: where jobs run, and where their policies are loaded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from trainer_service.domain.cluster.capacity import Demand, Node
from trainer_service.domain.inputs.found import FetchedModel
from trainer_service.domain.run.run import Run, RunId


class JobState(StrEnum):
    WAITING = "waiting"
    """For room on the cluster."""
    ACTIVE = "active"
    ENDED = "ended"
    """Ended by itself, whatever its exit status, or stopped."""
    UNKNOWN = "unknown"
    """Never submitted here, or of a cluster that is gone."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    state: JobState
    message: str = ""
    """The reason that it ended, as far as that is known."""
    out_of_memory: bool = False
    no_room: bool = False
    """The cluster had no room for its ranks after all: others took it, a node was lost, or is about to end."""


class JobRunner(Protocol):
    """Runs jobs beside this service, on a cluster. A job is named by its run and attempt."""

    @property
    def place(self) -> str:
        """Where it submits jobs: what it says of a job that was submitted at another place means nothing."""
        ...

    async def nodes(self) -> Sequence[Node]:
        """What it has for jobs. Raises Unavailable when the cluster cannot be reached."""
        ...

    async def holders(self) -> Mapping[Node, Sequence[RunId]]:
        """By each node that is there now, the runs with a rank on it, as far as it is known of several nodes. Raises
        Unavailable."""
        ...

    async def want(self, demands: Sequence[Demand]) -> None:
        """Tells a cluster that grows and shrinks by itself for which runs it is to have room at the same time. Empty:
        no more than is taken. Raises Unavailable."""
        ...

    async def submit(self, run: Run, base: FetchedModel, reward_model: FetchedModel | None = None) -> None:
        """Starts the job of the run's attempt; a job of that name that is there already is left alone.

        Raises:
            Unavailable: the cluster cannot be reached, or does not come up.
        """
        ...

    async def status(self, id: RunId, attempt: int) -> JobStatus:
        """Raises Unavailable when the cluster cannot be reached."""
        ...

    async def stop(self, id: RunId, attempt: int) -> None:
        """Ends the job, and what it holds elsewhere; one that is not there is fine. Raises Unavailable."""
        ...


class PolicyHost(Protocol):
    """Where the jobs of a run load their policies."""

    def places(self) -> Sequence[int] | None:
        """How many policies of runs each node may hold at a time, those that are loaded included. None: not known
        now."""
        ...

    def gpu_memory(self) -> Mapping[str, int]:
        """Bytes that its engines may take of each GPU, by the GPU's UUID, as far as it is known."""
        ...

    async def release(self, id: RunId, attempt: int) -> None:
        """Unloads what the run's attempts up to this one left loaded. Best effort: raises nothing."""
        ...
