"""Webhooks in memory, for tests."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from gateway_service.domain.webhooks.event import Event
from gateway_service.domain.webhooks.webhook import LONGEST, Delivery, State, Webhook
from ratchet_kit.errors import NotFound
from ratchet_kit.idempotency import Made, Request


class MemoryWebhookStore:
    def __init__(self) -> None:
        self._webhooks: dict[str, Webhook] = {}
        self._deliveries: dict[str, Delivery] = {}
        self._made: Made[str] = Made("webhook")

    async def create(self, webhook: Webhook, request: Request) -> Webhook:
        existing = await self.find(request)
        if existing is not None:
            return existing
        self._webhooks[webhook.id] = webhook
        self._made.add(request, webhook.id)
        return webhook

    async def find(self, request: Request) -> Webhook | None:
        webhook_id = self._made.find(request)
        return None if webhook_id is None else self._webhooks[webhook_id]

    async def get(self, webhook_id: str) -> Webhook:
        if webhook_id not in self._webhooks:
            raise NotFound(f"webhook {webhook_id} does not exist")
        return self._webhooks[webhook_id]

    async def count(self) -> int:
        return len(self._webhooks)

    async def page(self, limit: int, after: str | None) -> Sequence[Webhook]:
        newest_first = sorted(self._webhooks.values(), key=lambda webhook: webhook.id, reverse=True)
        return [one for one in newest_first if after is None or one.id < after][:limit]

    async def change(self, webhook_id: str, change: Callable[[Webhook], Webhook]) -> Webhook:
        self._webhooks[webhook_id] = change(await self.get(webhook_id))
        return self._webhooks[webhook_id]

    async def delete(self, webhook_id: str) -> None:
        await self.get(webhook_id)
        self._made.remove({webhook_id})
        del self._webhooks[webhook_id]
        self._deliveries = {id: one for id, one in self._deliveries.items() if one.webhook_id != webhook_id}

    async def announce(self, events: Sequence[Event], now: datetime) -> None:
        self.announce_now(events, now)

    def announce_now(self, events: Sequence[Event], now: datetime) -> None:
        """For the other stores in memory: in one go with what the events tell of."""
        there = {(one.webhook_id, one.event_id) for one in self._deliveries.values()}
        for event in events:
            for webhook in self._webhooks.values():
                if webhook.wants(event) and (webhook.id, event.id) not in there:
                    delivery = Delivery.of(event, webhook, now)
                    self._deliveries[delivery.id] = delivery

    async def with_due(self, now: datetime) -> Sequence[Webhook]:
        due = {one.webhook_id for one in self._deliveries.values() if _is_due(one, now)}
        return [one for one in self._webhooks.values() if one.id in due and not one.paused]

    async def take(self, webhook_id: str, now: datetime, until: datetime) -> Delivery | None:
        due = [one for one in self._deliveries.values() if one.webhook_id == webhook_id and _is_due(one, now)]
        if not due:
            return None
        first = min(due, key=lambda one: (one.next_time, one.id))
        taken = replace(first, attempts=first.attempts + 1, next_time=until)
        self._deliveries[taken.id] = taken
        return taken

    async def save(self, delivery: Delivery) -> None:
        if delivery.id in self._deliveries:
            self._deliveries[delivery.id] = delivery

    async def deliveries(self, webhook_id: str, limit: int, after: str | None) -> Sequence[Delivery]:
        own = [one for one in self._deliveries.values() if one.webhook_id == webhook_id]
        newest_first = sorted(own, key=lambda one: one.id, reverse=True)
        return [one for one in newest_first if after is None or one.id < after][:limit]

    async def forget(self, before: datetime) -> int:
        old = {id for id, one in self._deliveries.items() if (one.end_time or one.create_time + LONGEST) < before}
        self._deliveries = {id: one for id, one in self._deliveries.items() if id not in old}
        return len(old)


def _is_due(delivery: Delivery, now: datetime) -> bool:
    return delivery.state is State.WAITING and delivery.next_time <= now
