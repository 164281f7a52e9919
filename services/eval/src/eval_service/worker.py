"""Queue in: takes evaluations off the queue, measures them, and puts back what the queue has lost."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from eval_service.domain.evaluation import Evaluation, PassAtK
from eval_service.domain.measuring import Measurer
from eval_service.domain.ports import EvaluationStore, Meter, PolicyHost, Queue
from ratchet_kit.errors import Aborted, FailedPrecondition, NotFound, RatchetError, Unavailable
from ratchet_kit.logs import bound, get_logger
from ratchet_kit.streams import Message, Stream
from ratchet_kit.times import Clock

log = get_logger(__name__)

ID = "evaluation_id"
"""The field of a message that holds the evaluation's id."""

_BLOCK = timedelta(seconds=2)
_AFTER_FAULT = 1.0
_GIVEN_UP = (NotFound, FailedPrecondition, Aborted)


class StreamQueue:
    """The domain's Queue, on a stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    async def publish(self, evaluation_id: str) -> None:
        await self._stream.publish({ID: evaluation_id})

    async def depth(self) -> int:
        return sum((await self._stream.depth()).values())


@dataclass(frozen=True, slots=True)
class Timing:
    lease: timedelta = timedelta(seconds=30)
    """How long an evaluation stays with a worker that has died."""
    beat: timedelta = timedelta(seconds=3)
    """How often a worker renews its hold, and looks whether it was cancelled."""
    reconcile: timedelta = timedelta(seconds=10)


class Worker:
    def __init__(
        self,
        name: str,
        stream: Stream,
        queue: Queue,
        store: EvaluationStore,
        host: PolicyHost,
        measurer: Measurer,
        meter: Meter,
        clock: Clock,
        slots: int = 1,
        timing: Timing = Timing(),
        max_attempts: int = 5,
    ) -> None:
        """`name`: no other living worker has it; one that was restarted under its old name takes up its work at once.
        `slots`: evaluations measured at a time."""
        self._name = name
        self._stream = stream
        self._queue = queue
        self._store = store
        self._host = host
        self._measurer = measurer
        self._meter = meter
        self._clock = clock
        self._slots = slots
        self._timing = timing
        self._max_attempts = max_attempts
        self._active: set[str] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Works until told to stop; then gives back what it holds, to be resumed, and returns."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reconcile_until(stop))
            for _ in range(self._slots):
                tasks.create_task(self._consume_until(stop))

    # The queue

    async def _consume_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                for message in await self._stream.read(1, _BLOCK):
                    await self._handle(message, stop)
            except RatchetError as error:
                log.warning("worker.platform_fault", error=error.message)
                await asyncio.sleep(_AFTER_FAULT)

    async def _handle(self, message: Message, stop: asyncio.Event) -> None:
        """Acknowledges the message once what it asked for is stored, or there is nothing to do for it."""
        id = message.payload.get(ID, "")
        if id not in self._active:
            self._active.add(id)
            try:
                with bound(evaluation_id=id):
                    await self._take(id, message, stop)
            finally:
                self._active.discard(id)
        await self._stream.ack(message)

    async def _take(self, id: str, message: Message, stop: asyncio.Event) -> None:
        now, lease = self._clock.now(), self._timing.lease
        try:
            evaluation = await self._store.change(id, lambda present: present.claim(self._name, now, lease))
        except _GIVEN_UP as error:
            log.info("evaluation.not_taken", reason=error.message)  # it has ended, or is in good hands
            return
        if evaluation.attempts > self._max_attempts:
            await self._fail(evaluation, f"given up: {self._max_attempts} workers have died while they measured it")
            return
        log.info("evaluation.taken", attempt=evaluation.attempts)
        await self._measure(evaluation, message, stop)

    # One evaluation

    async def _measure(self, evaluation: Evaluation, message: Message, stop: asyncio.Event) -> None:
        measuring = asyncio.create_task(self._measurer.run(evaluation, self._name))
        stopping = asyncio.create_task(stop.wait())
        try:
            while not measuring.done():
                await asyncio.wait(
                    {measuring, stopping},
                    timeout=self._timing.beat.total_seconds(),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if stop.is_set() and not measuring.done():
                    await _cancel(measuring)
                    with suppress(*_GIVEN_UP):  # cancelled or taken over meanwhile
                        await self._store.change(evaluation.id, lambda present: present.release(self._name))
                        log.info("evaluation.given_back")
                    return
                if not await self._keep(evaluation.id, message):
                    return
            await self._finish(evaluation, measuring)
        finally:
            await _cancel(measuring)
            await _cancel(stopping)

    async def _keep(self, id: str, message: Message) -> bool:
        """Renews the hold. False when the evaluation was cancelled, or is with another worker now."""
        now = self._clock.now()
        try:
            await self._store.change(id, lambda present: present.renew(self._name, now, self._timing.lease))
        except _GIVEN_UP as error:
            log.info("evaluation.left", reason=error.message)
            return False
        except Unavailable as error:
            log.warning("evaluation.hold_not_renewed", error=error.message)
        with suppress(Aborted, Unavailable):  # the store's hold is what counts
            await self._stream.extend(message)
        return True

    async def _finish(self, evaluation: Evaluation, measuring: asyncio.Task[Sequence[PassAtK]]) -> None:
        try:
            pass_at_k = measuring.result()
        except RatchetError as error:
            await self._fail(evaluation, error.message)
            return
        except Exception:
            log.exception("evaluation.broken")
            await self._fail(evaluation, "an internal error of eval-service; its log has more")
            return
        now = self._clock.now()
        with suppress(*_GIVEN_UP):
            ended = await self._store.change(evaluation.id, lambda present: present.succeed(self._name, pass_at_k, now))
            self._meter.ended(ended)
            log.info("evaluation.succeeded", pass_at_k={item.k: item.estimate.value for item in pass_at_k})

    async def _fail(self, evaluation: Evaluation, error: str) -> None:
        now = self._clock.now()
        with suppress(*_GIVEN_UP):  # cancelled or taken over meanwhile
            ended = await self._store.change(evaluation.id, lambda present: present.fail(self._name, error, now))
            self._meter.ended(ended)
            log.error("evaluation.failed", error=error)

    # What the queue has lost

    async def _reconcile_until(self, stop: asyncio.Event) -> None:
        first = True
        while not stop.is_set():
            try:
                await self._requeue(all_of_them=first)
                first = False
                await self._close_leftovers()
            except RatchetError as error:
                log.warning("worker.platform_fault", error=error.message)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), self._timing.reconcile.total_seconds())

    async def _requeue(self, all_of_them: bool) -> None:
        """Publishes the evaluations that wait for a worker when the queue has fewer messages than they are: it was
        flushed, or could not be reached when they were made. One that is published twice is measured once.

        `all_of_them` publishes whatever the queue has: its messages may be leased to a worker that was killed.
        Raises Unavailable.
        """
        now = self._clock.now()
        waiting = [
            evaluation
            for evaluation in await self._store.unfinished()
            if evaluation.id not in self._active and evaluation.may_be_claimed(self._name, now)
        ]
        if waiting and (all_of_them or await self._queue.depth() < len(waiting)):
            for evaluation in waiting:
                await self._queue.publish(evaluation.id)
            log.info("worker.requeued", evaluations=len(waiting))

    async def _close_leftovers(self) -> None:
        """Unloads policies of evaluations that ended while nobody could unload them."""
        for holder in await self._host.holders():
            try:
                ended = (await self._store.get(holder)).state.ended
            except NotFound:
                ended = True
            if ended and holder not in self._active:
                log.info("policy.leftover_unloaded", evaluation_id=holder)
                await self._host.close(holder)


async def _cancel(task: asyncio.Task[Any]) -> None:
    """Cancels the task and waits for it; what it raised or gave is left to `task.result()`."""
    task.cancel()
    await asyncio.wait({task})
