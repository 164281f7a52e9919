"""Sends what webhooks wait for, and keeps what other services tell of for them."""

import asyncio
import random
from dataclasses import replace
from datetime import timedelta

from standardwebhooks import Webhook as Signer

from gateway_service.domain.webhooks.addresses import Addresses
from gateway_service.domain.webhooks.ports import Feed, Sender, WebhookStore
from gateway_service.domain.webhooks.webhook import GONE, MAX_STRETCH, Delivery, Webhook
from ratchet_kit import metrics
from ratchet_kit.errors import InvalidArgument, Unavailable
from ratchet_kit.logs import get_logger
from ratchet_kit.times import Clock
from ratchet_kit.work import every, surviving

log = get_logger(__name__)
_attempts = metrics.counter(
    "webhook_attempts", "Attempts to deliver an event to a webhook, by how they ended", ("end",)
)

TICK = timedelta(seconds=1)
"""Between two looks for what is to be sent."""
LEASE = timedelta(minutes=1)
"""After it another gateway sends what one took and said nothing more of; longer than any attempt takes."""
BLOCK = timedelta(seconds=5)
"""The longest that one look at the feed waits."""
TURN = 50
"""Deliveries that a webhook's task makes before the webhook is read again: it may be paused by then, say."""


class Deliverer:
    """Each webhook has its own task and one delivery at a time: an endpoint that is slow or dead holds up its own
    deliveries, and no other's. Several gateways may do this on one database."""

    def __init__(
        self, store: WebhookStore, sender: Sender, addresses: Addresses, feed: Feed, clock: Clock, chance: random.Random
    ) -> None:
        self._store = store
        self._sender = sender
        self._addresses = addresses
        self._feed = feed
        self._clock = clock
        self._chance = chance
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def run(self, stop: asyncio.Event) -> None:
        try:
            await every(TICK, stop, self.tick, name="deliver webhooks")
        finally:
            for task in self._tasks.values():
                task.cancel()  # what it had taken is sent again after its lease
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def tick(self) -> None:
        """Starts a task for each webhook that has something to be sent and none yet. Raises Unavailable."""
        self._tasks = {id: task for id, task in self._tasks.items() if not task.done()}
        for webhook in await self._store.with_due(self._clock.now()):
            if webhook.id not in self._tasks:
                self._tasks[webhook.id] = asyncio.create_task(self._deliver_all(webhook))

    async def idle(self) -> None:
        """Returns when what was begun has ended."""
        await asyncio.gather(*self._tasks.values())

    async def listen(self, stop: asyncio.Event) -> None:
        """Keeps what other services tell of for those who want it, while there is a webhook at all."""
        await every(TICK, stop, self.receive, name="read events")

    async def receive(self) -> None:
        """Raises Unavailable."""
        if not await self._store.count():
            return
        events = await self._feed.read(BLOCK)
        await self._store.announce(events, self._clock.now())
        await self._feed.ack()

    async def _deliver_all(self, webhook: Webhook) -> None:
        with surviving("deliver to webhook", webhook_id=webhook.id):
            for _ in range(TURN):
                delivery = await self._take(webhook)
                if delivery is None:
                    return
                done = await self._attempt(webhook, delivery)
                await self._store.save(done)
                _attempts.labels("failed" if done.error else "delivered").inc()
                if done.error:
                    log.warning("webhook.failed", webhook_id=webhook.id, event_id=done.event_id, reason=done.error)
                    if done.status == GONE:
                        await self._store.change(webhook.id, lambda present: replace(present, paused=True))
                    return  # the others' turn comes at the next tick

    async def _take(self, webhook: Webhook) -> Delivery | None:
        now = self._clock.now()
        return await self._store.take(webhook.id, now, now + LEASE)

    async def _attempt(self, webhook: Webhook, delivery: Delivery) -> Delivery:
        now = self._clock.now()
        headers = {
            "content-type": "application/json",
            "webhook-id": delivery.event_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": Signer(webhook.secret).sign(delivery.event_id, now, delivery.body),
        }
        status, reason = 0, ""
        try:
            self._addresses.check(webhook.url)  # the operator may have changed what is allowed
            status = await self._sender.send(webhook.url, headers, delivery.body)
            reason = "" if 200 <= status < 300 else f"the endpoint answered {status}"
        except (InvalidArgument, Unavailable) as error:
            reason = error.message
        now = self._clock.now()
        if not reason:
            return delivery.succeed(status, now)
        return delivery.fail(status, reason, now, self._chance.uniform(1, MAX_STRETCH))
