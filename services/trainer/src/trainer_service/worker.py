"""Queue in: runs as `ratchet_kit.worker.Worker` drives them."""

from collections.abc import Sequence
from dataclasses import dataclass

from ratchet_kit.errors import RatchetError
from ratchet_kit.work import Priority, Waiting
from trainer_service.domain.run.ports import RunStore
from trainer_service.domain.run.run import RunId, State
from trainer_service.domain.work.driver import Driver


@dataclass(frozen=True, slots=True)
class Claim:
    """A run by its id: the queue's lease is the hold."""

    id: RunId
    attempts: int = 0
    """The driver counts the starts of a run's job; how many workers have driven it does not matter."""


class RunWork:
    """A run whose lease is lost goes on without this worker: its job is left alone, and whoever leases the run next
    finds it."""

    kind = "run"

    def __init__(self, store: RunStore, driver: Driver) -> None:
        self._store = store
        self._driver = driver

    async def claim(self, id: str) -> Claim:
        return Claim((await self._store.get(RunId(id))).id)

    async def renew(self, claim: Claim) -> None:
        pass

    async def release(self, claim: Claim, *, attempted: bool) -> None:
        pass

    async def do(self, claim: Claim) -> None:
        await self._driver.drive(claim.id)

    async def fail(self, claim: Claim, error: RatchetError) -> None:
        await self._driver.give_up(claim.id, error)

    async def waiting(self) -> Sequence[Waiting]:
        """Those that have begun. The scheduler queues the others, when it is their turn."""
        runs = [run for run in await self._store.unfinished() if run.state is not State.QUEUED]
        return [Waiting(run.id, run.create_time, Priority(run.spec.priority)) for run in runs]
