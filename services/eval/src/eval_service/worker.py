"""Queue in: what a worker does with an evaluation, and what it or a caller may have left behind."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from eval_service.domain.evaluation import Evaluation
from eval_service.domain.measuring.measurer import Measurer
from eval_service.domain.measuring.patience import OutOfPatience
from eval_service.domain.ports import EvaluationStore, Events, Meter, PolicyHost
from ratchet_kit.errors import Aborted, NotFound, RatchetError, Unavailable
from ratchet_kit.logs import get_logger
from ratchet_kit.times import Clock
from ratchet_kit.work import Waiting, every, surviving
from ratchet_kit.worker import HeldWork

log = get_logger(__name__)


class EvaluationWork(HeldWork[Evaluation]):
    """`ratchet_kit.work.Work` on evaluations."""

    kind = "evaluation"

    def __init__(
        self,
        owner: str,
        store: EvaluationStore,
        measurer: Measurer,
        meter: Meter,
        events: Events,
        clock: Clock,
        lease: timedelta,
    ) -> None:
        """`owner`: no other living worker has this name. `lease`: how long an evaluation stays with one that died."""
        super().__init__(store.change, owner, clock, lease)
        self._store = store
        self._measurer = measurer
        self._meter = meter
        self._events = events

    async def do(self, claim: Evaluation) -> None:
        try:
            result = await self._measurer.run(claim, self.owner)
        except OutOfPatience as error:
            await self.fail(claim, error)
            return
        except (Aborted, Unavailable):  # it is another worker's by now; the database was away, for which the next waits
            raise
        except RatchetError as error:
            await self.fail(claim, error)
            return
        now = self.clock.now()
        ended = await self._store.change(claim.id, lambda present: present.succeed(self.owner, result, now))
        self._meter.ended(ended)
        await self._events.ended(ended)
        log.info("evaluation.succeeded", pass_at_k={item.k: item.estimate.value for item in result.pass_at_k})

    async def fail(self, claim: Evaluation, error: RatchetError) -> None:
        await super().fail(claim, error)
        ended = await self._store.get(claim.id)
        self._meter.ended(ended)
        await self._events.ended(ended)
        log.error("evaluation.failed", evaluation_id=claim.id, reason=error.message)

    async def waiting(self) -> Sequence[Waiting]:
        now = self.clock.now()
        under_way = await self._store.under_way()
        return [Waiting(one.id, one.added.time or one.create_time) for one in under_way if one.is_ready(now)]


class Leftovers:
    """Policies of evaluations that ended while nobody could unload them, and evaluations whose caller left before all
    samples were added."""

    def __init__(
        self,
        store: EvaluationStore,
        host: PolicyHost,
        events: Events,
        clock: Clock,
        interval: timedelta,
        patience: timedelta,
    ) -> None:
        """`patience`: how long an evaluation waits for the next sample of its caller."""
        self._store = store
        self._host = host
        self._events = events
        self._clock = clock
        self._interval = interval
        self._patience = patience

    async def run(self, stop: asyncio.Event) -> None:
        await every(self._interval, stop, self.clear, name="leftovers")

    async def clear(self) -> None:
        """Raises Unavailable."""
        await self.abandon()
        await self.close()

    async def abandon(self) -> None:
        """Raises Unavailable."""
        now = self._clock.now()
        for waiting in await self._store.under_way():
            if waiting.abandon(self._patience, now) is waiting:
                continue
            with surviving("abandoned", evaluation_id=waiting.id):
                ended = await self._store.change(waiting.id, lambda present: present.abandon(self._patience, now))
                if ended.end_time == now:  # and nobody added to it meanwhile
                    await self._events.ended(ended)
                    log.info("evaluation.abandoned", evaluation_id=ended.id)

    async def close(self) -> None:
        """One that cannot be unloaded holds up no other. Raises Unavailable."""
        for holder in await self._host.holders():
            with surviving("leftover", evaluation_id=holder):
                if await self._has_ended(holder):
                    await self._host.close(holder)
                    log.info("policy.leftover_unloaded", evaluation_id=holder)

    async def _has_ended(self, evaluation_id: str) -> bool:
        try:
            return (await self._store.get(evaluation_id)).state.ended
        except NotFound:
            return True
