"""The worker: takes ids off a queue, claims what they name in the store, does it, acknowledges.

A claim is a hold in the store, renewed while the work goes on. What a worker had that died is claimed by another once
its hold has run out. A message is acknowledged once the effect is stored. What the queue has lost (FLUSHALL, a publish
that failed) is put back from the store. See `ratchet_kit.work` for what a service brings.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, Protocol, Self, TypeVar

from ratchet_kit import projects
from ratchet_kit.errors import Aborted, Failure, Internal, RatchetError, Unavailable
from ratchet_kit.logs import bound, get_logger
from ratchet_kit.retry import OUTSIDE
from ratchet_kit.times import Clock
from ratchet_kit.work import LEFT_ALONE, C, Delivery, Work, WorkQueue, every, surviving

log = get_logger(__name__)

T = TypeVar("T")


class Failing(Protocol):
    """A `ratchet_kit.work.Held` that has an id and can fail: each method gives the new value, or raises one of
    LEFT_ALONE."""

    @property
    def id(self) -> str: ...
    @property
    def attempts(self) -> int: ...
    def claim(self, owner: str, now: datetime, lease: timedelta) -> Self: ...
    def renew(self, owner: str, now: datetime, lease: timedelta) -> Self: ...
    def release(self, owner: str, *, attempted: bool) -> Self: ...
    def fail(self, owner: str, failure: Failure, now: datetime) -> Self: ...


H = TypeVar("H", bound=Failing)


class HeldWork(Generic[H]):
    """The half of `ratchet_kit.work.Work` that is the same for all that is held: a service adds `kind`, `do` and
    `waiting`."""

    def __init__(
        self, change: Callable[[str, Callable[[H], H]], Awaitable[H]], owner: str, clock: Clock, lease: timedelta
    ) -> None:
        """`change(id, change)` stores what `change` makes of the thing. `owner`: this worker, see
        `ServiceSettings.worker_name`. `lease`: how long a hold outlives a worker that died."""
        self._change = change
        self._lease = lease
        self.owner = owner
        self.clock = clock

    async def claim(self, id: str) -> H:
        return await self._change(id, lambda held: held.claim(self.owner, self.clock.now(), self._lease))

    async def renew(self, claim: H) -> None:
        await self._change(claim.id, lambda held: held.renew(self.owner, self.clock.now(), self._lease))

    async def release(self, claim: H, *, attempted: bool) -> None:
        await self._change(claim.id, lambda held: held.release(self.owner, attempted=attempted))

    async def fail(self, claim: H, error: RatchetError) -> None:
        await self._change(claim.id, lambda held: held.fail(self.owner, Failure.of(error), self.clock.now()))


@dataclass(frozen=True, slots=True)
class Timing:
    """How often a worker does what."""

    beat: timedelta = timedelta(seconds=3)
    """Renews its hold, and looks whether the work was cancelled: at least three times as often as a hold runs out."""
    reconcile: timedelta = timedelta(seconds=10)
    """Puts back what the queue has lost."""
    settle: timedelta = timedelta(seconds=5)
    """What was made so lately may be on its way into the queue, and is not put back."""
    block: timedelta = timedelta(seconds=2)
    """How long one look at the queue waits."""
    pause: timedelta = timedelta(seconds=1)
    """After a fault of the platform."""

    @classmethod
    def of_lease(cls, lease: timedelta) -> Self:
        """For holds that outlive their worker by `lease`."""
        return cls(beat=lease / 10, reconcile=lease / 3, settle=min(lease / 3, cls().settle))


class Worker(Generic[C]):
    """Does the work of one kind, `slots` at a time. Use `run` as background work of `ratchet_kit.server.serve`."""

    def __init__(
        self,
        queue: WorkQueue,
        work: Work[C],
        clock: Clock,
        *,
        slots: int = 1,
        max_attempts: int = 5,
        leased: bool = False,
        timing: Timing = Timing(),
    ) -> None:
        """`max_attempts`: more claims than these mean that the work kills its workers. `leased`: the store keeps no
        hold, so that who loses the queue's lease has lost the work; else the store's hold alone counts."""
        self._queue = queue
        self._work = work
        self._clock = clock
        self._slots = slots
        self._max_attempts = max_attempts
        self._leased = leased
        self._timing = timing
        self._active: set[str] = set()
        self._unclaimed: set[str] = set()
        """What cannot be read, as far as this process knows."""
        self._resumed: list[Delivery] | None = None
        self._resuming = asyncio.Lock()

    async def run(self, stop: asyncio.Event) -> None:
        """Works until `stop` is set; then gives back what it holds, for another to take at once, and returns."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(every(self._timing.reconcile, stop, self._reconcile))
            for _ in range(self._slots):
                tasks.create_task(self._consume(stop))

    async def reconcile(self) -> Sequence[str]:
        """Puts what the queue has lost back on it, and says what that was. Raises Unavailable."""
        settled = self._clock.now() - self._timing.settle
        waiting = [one for one in await self._work.waiting() if one.create_time <= settled]
        if not waiting:
            return []
        held = await self._queue.held()
        here = self._active | self._unclaimed
        lost = [one for one in waiting if one.id not in held and one.id not in here]
        for one in lost:
            await self._queue.publish(one.id, one.priority)
            log.warning("work.requeued", kind=self._work.kind, id=one.id)
        return [one.id for one in lost]

    # The queue

    async def _reconcile(self) -> None:
        await self._survive(self.reconcile)

    async def _consume(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            delivery = await self._survive(self._next)
            if delivery is not None:
                await self._handle(delivery, stop)

    async def _next(self) -> Delivery | None:
        """First what this worker had when it was killed, if it was started under the same name again."""
        async with self._resuming:
            if self._resumed is None:
                self._resumed = list(await self._queue.resume())
        return self._resumed.pop(0) if self._resumed else await self._queue.take(self._timing.block)

    async def _handle(self, delivery: Delivery, stop: asyncio.Event) -> None:
        if delivery.id in self._active:  # it was published twice
            await self._survive(lambda: self._queue.ack(delivery))
            return
        self._active.add(delivery.id)
        try:
            with bound(**{f"{self._work.kind}_id": delivery.id}), projects.of_owner(delivery.id):
                await self._survive(lambda: self._take(delivery, stop))
        finally:
            self._active.discard(delivery.id)

    async def _survive(self, step: Callable[[], Awaitable[T]]) -> T | None:
        """What the step gives; None after an error, which is logged: a message that it left is given out again."""
        with surviving(self._work.kind):
            return await step()
        await asyncio.sleep(self._timing.pause.total_seconds())
        return None

    # One delivery

    async def _take(self, delivery: Delivery, stop: asyncio.Event) -> None:
        try:
            claim = await self._work.claim(delivery.id)
        except LEFT_ALONE as error:  # it is over, or in good hands
            log.debug("work.not_taken", kind=self._work.kind, reason=error.message)
            await self._queue.ack(delivery)
            return
        except OUTSIDE:
            raise
        except Exception as error:
            if delivery.times < self._max_attempts:
                raise
            log.exception("work.set_aside", kind=self._work.kind)
            self._unclaimed.add(delivery.id)
            await self._queue.dead_letter(delivery, f"{self._max_attempts} times nobody could read it: {error}")
            return
        if claim.attempts > self._max_attempts:
            reason = f"given up: {self._max_attempts} times a worker ended while it had this"
            await self._give_up(delivery, claim, Internal(reason))
            return
        log.info("work.taken", kind=self._work.kind, attempt=claim.attempts)
        await self._hold(delivery, claim, stop)

    async def _hold(self, delivery: Delivery, claim: C, stop: asyncio.Event) -> None:
        doing = asyncio.create_task(self._work.do(claim))
        stopping = asyncio.create_task(stop.wait())
        try:
            while True:
                beat = self._timing.beat.total_seconds()
                await asyncio.wait({doing, stopping}, timeout=beat, return_when=asyncio.FIRST_COMPLETED)
                if doing.done():
                    break
                if stop.is_set():
                    await _cancel(doing)
                    if doing.cancelled():
                        await self._give_back(delivery, claim)
                        return
                    break
                if not await self._keep(delivery, claim):
                    await _cancel(doing)
                    return
            await self._conclude(delivery, claim, doing)
        finally:
            await _cancel(doing)
            await _cancel(stopping)

    async def _keep(self, delivery: Delivery, claim: C) -> bool:
        """Renews the hold and the lease. False when the work is to stop; the message is settled then.

        Where either cannot be renewed now, the work goes on: the store refuses what is another's by the time it ends.
        """
        left: RatchetError | None = None
        with surviving(f"{self._work.kind}.renew"):
            try:
                await self._work.renew(claim)
            except LEFT_ALONE as error:
                left = error
        if left is not None:
            log.info("work.left", kind=self._work.kind, reason=left.message)
            await self._queue.ack(delivery)
            return False
        with surviving(f"{self._work.kind}.extend"):
            try:
                await self._queue.extend(delivery)
            except Aborted as error:
                if self._leased:
                    log.warning("work.lease_lost", kind=self._work.kind, reason=error.message)
                    return False
        return True

    async def _conclude(self, delivery: Delivery, claim: C, doing: asyncio.Task[None]) -> None:
        try:
            doing.result()
        except LEFT_ALONE as error:
            log.info("work.left", kind=self._work.kind, reason=error.message)
            await self._queue.ack(delivery)
        except Unavailable as error:
            log.warning("work.postponed", kind=self._work.kind, attempt=claim.attempts, reason=error.message)
            await self._postpone(delivery, claim, error)
        except RatchetError as error:
            await self._give_up(delivery, claim, error)
        except Exception as error:
            log.exception("work.broken", kind=self._work.kind, attempt=claim.attempts)
            bug = Internal(f"an internal error of the service ({type(error).__name__}); its log has the trace")
            if self._leased:  # nobody counts the attempts
                await self._give_up(delivery, claim, bug)
            else:  # the next one may not meet it
                await self._postpone(delivery, claim, bug)
        else:
            await self._queue.ack(delivery)
            log.info("work.done", kind=self._work.kind)

    async def _postpone(self, delivery: Delivery, claim: C, error: Unavailable | Internal) -> None:
        """Whoever finds the message once its lease has run out tries again, up to the last attempt."""
        if claim.attempts >= self._max_attempts:
            await self._give_up(delivery, claim, type(error)(f"{error.message} (after {claim.attempts} attempts)"))
        else:
            with suppress(*LEFT_ALONE):
                await self._work.release(claim, attempted=True)

    async def _give_up(self, delivery: Delivery, claim: C, error: RatchetError) -> None:
        log.error("work.given_up", kind=self._work.kind, attempt=claim.attempts, reason=error.message)
        with suppress(*LEFT_ALONE):  # cancelled or taken over meanwhile
            await self._work.fail(claim, error)
        await self._queue.dead_letter(delivery, error.message)

    async def _give_back(self, delivery: Delivery, claim: C) -> None:
        with suppress(*LEFT_ALONE):  # cancelled or taken over meanwhile
            await self._work.release(claim, attempted=False)
            await self._queue.publish(delivery.id, delivery.priority)
            log.info("work.given_back", kind=self._work.kind)
        await self._queue.ack(delivery)


async def _cancel(task: asyncio.Task[Any]) -> None:
    """Cancels the task and waits for it; what it raised or gave is left to `task.result()`, for whom it concerns."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # else asyncio logs that nobody looked at it
