"""Queue in: leases runs from `trainer.runs` and drives them, and puts back what no queue holds."""

import asyncio
from datetime import timedelta

from ratchet_kit.errors import Aborted, FailedPrecondition, NotFound, RatchetError, Unavailable
from ratchet_kit.logs import get_logger
from ratchet_kit.streams import Message
from ratchet_kit.times import Clock
from trainer_service.adapters.queue import RedisRunQueue, run_of
from trainer_service.domain.driver import Driver
from trainer_service.domain.ports import Meter, RunStore
from trainer_service.domain.run import RunId
from trainer_service.domain.spec import Priority

log = get_logger(__name__)

BLOCK = timedelta(seconds=2)
PAUSE = timedelta(seconds=1)
SETTLING = timedelta(seconds=5)
"""A run that was made so lately may be on its way into the queue."""


class Worker:
    """Drives at most `concurrency` runs at once. A run whose lease is lost goes on without us: its job is left alone,
    and whoever leases it next finds it."""

    def __init__(self, queue: RedisRunQueue, driver: Driver, concurrency: int) -> None:
        self._queue = queue
        self._driver = driver
        self._concurrency = concurrency
        self._driven: set[RunId] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`: then the runs are let go, unfinished, for the next worker."""
        tasks: set[asyncio.Task[None]] = set()
        stopping = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                if len(tasks) < self._concurrency:
                    tasks |= {asyncio.create_task(self._handle(message)) for message in await self._lease()}
                    tasks = {task for task in tasks if not task.done()}
                    continue
                await asyncio.wait({stopping, *tasks}, return_when=asyncio.FIRST_COMPLETED)
                tasks = {task for task in tasks if not task.done()}
        finally:
            stopping.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(stopping, *tasks, return_exceptions=True)

    async def _lease(self) -> list[Message]:
        try:
            return await self._queue.stream.read(1, BLOCK)
        except Unavailable as error:
            log.warning("queue.unavailable", reason=error.message)
            await asyncio.sleep(PAUSE.total_seconds())
            return []

    async def _handle(self, message: Message) -> None:
        id = run_of(message)
        if id is None or id in self._driven:  # put back while we drive it
            await self._acknowledge(message)
            return
        self._driven.add(id)
        try:
            async with self._queue.stream.holding(message):
                await self._drive(id)
            await self._acknowledge(message)
        except Aborted as error:
            log.warning("run.lease_lost", run_id=id, reason=error.message)
        except RatchetError as error:
            log.warning("run.let_go", run_id=id, reason=error.message)
        finally:
            self._driven.discard(id)

    async def _drive(self, id: RunId) -> None:
        try:
            await self._driver.drive(id)
        except NotFound:
            log.warning("run.unknown", run_id=id)
        except RatchetError:
            raise
        except Exception:  # a fault of ours must end the run, not spin in the queue
            log.exception("run.driver_failed", run_id=id)
            try:
                await self._driver.give_up(id, "the trainer service has an internal error; its log has the trace")
            except FailedPrecondition:
                pass

    async def _acknowledge(self, message: Message) -> None:
        try:
            await self._queue.stream.ack(message)
        except Unavailable as error:  # it is given out again, and then found to be over
            log.warning("run.not_acknowledged", reason=error.message)


class Reconciler:
    """SQL is the truth: every `every`, unfinished runs that no queue holds are put on it again (after FLUSHALL, or a
    Create while Redis was away)."""

    def __init__(self, store: RunStore, queue: RedisRunQueue, meter: Meter, clock: Clock, every: timedelta) -> None:
        self._store = store
        self._queue = queue
        self._meter = meter
        self._clock = clock
        self._every = every

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                await self.once()
            except Unavailable as error:
                log.warning("queue.not_reconciled", reason=error.message)
            try:
                await asyncio.wait_for(stop.wait(), self._every.total_seconds())
            except TimeoutError:
                pass

    async def once(self) -> list[RunId]:
        """The runs that were put back. Raises Unavailable."""
        self._meter.states(await self._store.counts())
        held = await self._queue.held()
        settled = self._clock.now() - SETTLING
        lost = [run for run in await self._store.unfinished() if run.id not in held and run.create_time < settled]
        for run in lost:
            log.warning("run.requeued", run_id=run.id, state=run.state.name)
            await self._queue.put(run.id, Priority(run.spec.priority))
        return [run.id for run in lost]
