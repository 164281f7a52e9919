"""WebhookStore on SQLite and PostgreSQL."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row, and_, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway_service.adapters.sql.tables import deliveries, webhooks
from gateway_service.domain.webhooks.event import Event, Kind
from gateway_service.domain.webhooks.webhook import LONGEST, Delivery, State, Webhook
from ratchet_kit import sql
from ratchet_kit.errors import NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.sql import Database, value_of
from ratchet_kit.work import surviving


class SqlWebhookStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, webhook: Webhook, request: Request) -> Webhook:
        if await self._database.insert_if_absent(webhooks, _row(webhook) | request.columns):
            return webhook
        existing = await self.find(request)
        assert existing is not None, "an id is new, so that only the request's can be taken"
        return existing

    async def find(self, request: Request) -> Webhook | None:
        row = await self._database.made_by(request, select(webhooks), "webhook")
        return None if row is None else _webhook(row)

    async def get(self, webhook_id: str) -> Webhook:
        row = await self._database.first(select(webhooks).where(webhooks.c.id == webhook_id))
        if row is None:
            raise _missing(webhook_id)
        return _webhook(row)

    async def count(self) -> int:
        row = await self._database.first(select(func.count()).select_from(webhooks))
        return 0 if row is None else int(row[0])

    async def page(self, limit: int, after: str | None) -> Sequence[Webhook]:
        query = select(webhooks).order_by(webhooks.c.id.desc())
        if after is not None:
            query = query.where(webhooks.c.id < after)
        return await self._database.readable(query, _webhook, limit)

    async def change(self, webhook_id: str, change: Callable[[Webhook], Webhook]) -> Webhook:
        async with self._database.writing() as connection:
            query = select(webhooks).where(webhooks.c.id == webhook_id).with_for_update()
            row = (await connection.execute(query)).one_or_none()
            if row is None:
                raise _missing(webhook_id)
            changed = change(_webhook(row))
            await connection.execute(update(webhooks).where(webhooks.c.id == webhook_id).values(_row(changed)))
            return changed

    async def delete(self, webhook_id: str) -> None:
        async with self._database.writing() as connection:
            result = await connection.execute(delete(webhooks).where(webhooks.c.id == webhook_id))
            if not result.rowcount:
                raise _missing(webhook_id)
            await connection.execute(delete(deliveries).where(deliveries.c.webhook_id == webhook_id))

    async def announce(self, events: Sequence[Event], now: datetime) -> None:
        if events:
            async with self._database.writing() as connection:
                await announce(connection, events, now)

    async def with_due(self, now: datetime) -> Sequence[Webhook]:
        due = select(deliveries.c.webhook_id).where(deliveries.c.state == State.WAITING, deliveries.c.next_time <= now)
        query = select(webhooks).where(webhooks.c.paused.is_(False), webhooks.c.id.in_(due)).order_by(webhooks.c.id)
        return await self._database.readable(query, _webhook)

    async def take(self, webhook_id: str, now: datetime, until: datetime) -> Delivery | None:
        due = (
            deliveries.c.webhook_id == webhook_id,
            deliveries.c.state == State.WAITING,
            deliveries.c.next_time <= now,
        )
        query = select(deliveries).where(*due).order_by(deliveries.c.next_time, deliveries.c.id).limit(1)
        row = await self._database.first(query)
        if row is None:
            return None
        seen = _delivery(row)
        taken = replace(seen, attempts=seen.attempts + 1, next_time=until)
        # Who saw the same row meanwhile finds another number of attempts, and comes back at its next look.
        unchanged = (deliveries.c.id == seen.id, deliveries.c.attempts == seen.attempts, *due)
        async with self._database.writing() as connection:
            result = await connection.execute(update(deliveries).where(*unchanged).values(_delivery_row(taken)))
        return taken if result.rowcount else None

    async def save(self, delivery: Delivery) -> None:
        async with self._database.writing() as connection:
            change = update(deliveries).where(deliveries.c.id == delivery.id)
            await connection.execute(change.values(_delivery_row(delivery)))

    async def deliveries(self, webhook_id: str, limit: int, after: str | None) -> Sequence[Delivery]:
        query = select(deliveries).where(deliveries.c.webhook_id == webhook_id).order_by(deliveries.c.id.desc())
        if after is not None:
            query = query.where(deliveries.c.id < after)
        return await self._database.readable(query, _delivery, limit)

    async def forget(self, before: datetime) -> int:
        async with self._database.writing() as connection:
            waiting = and_(deliveries.c.end_time.is_(None), deliveries.c.create_time < before - LONGEST)
            result = await connection.execute(delete(deliveries).where(or_(deliveries.c.end_time < before, waiting)))
            return int(result.rowcount)


async def announce(connection: AsyncConnection, events: Sequence[Event], now: datetime) -> None:
    """`WebhookStore.announce` in a transaction: of the change that the events tell of, say."""
    found: list[Webhook] = []
    for row in (await connection.execute(select(webhooks))).all():
        with surviving("read webhook", webhook_id=row.id):  # one that another version wrote holds up no release
            found.append(_webhook(row))
    new = [_delivery_row(Delivery.of(event, one, now)) for event in events for one in found if one.wants(event)]
    await sql.insert_all_if_absent(connection, deliveries, new)


def _missing(webhook_id: str) -> NotFound:
    return NotFound(f"webhook {webhook_id} does not exist")


def _row(webhook: Webhook) -> dict[str, Any]:
    return asdict(webhook) | {"kinds": sorted(webhook.kinds)}


def _webhook(row: Row[Any]) -> Webhook:
    return value_of(Webhook, row, kinds=frozenset(map(Kind, row.kinds)))


def _delivery_row(delivery: Delivery) -> dict[str, Any]:
    return asdict(delivery)


def _delivery(row: Row[Any]) -> Delivery:
    return value_of(Delivery, row, kind=Kind(row.kind), state=State(row.state))
