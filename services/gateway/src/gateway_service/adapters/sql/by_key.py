"""The sums of answers, by day, key and version."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway_service.adapters.sql.tables import answer_days
from gateway_service.domain.keys.costs import Charge
from gateway_service.domain.traffic.record import CompletionRecord, answers_of
from ratchet_kit.names import VersionRef
from ratchet_kit.sql import Database
from ratchet_kit.usage import Prices, Usage

KEYS = ("day", "key_id", "model", "version", "currency")


async def add(connection: AsyncConnection, records: Sequence[CompletionRecord], prices: Prices | None) -> None:
    """Each record once. Sorted, so that two gateways do not wait for one another in a circle."""
    days: dict[str, list[CompletionRecord]] = {}
    for record in records:
        days.setdefault(_day(record.start_time), []).append(record)
    rows = [_row(day, one) for day, each in days.items() for one in answers_of(each, prices)]
    if not rows:
        return
    rows.sort(key=lambda row: [row[name] for name in KEYS])
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    insertion = dialect.insert(answer_days)
    grown = {
        column.name: column + insertion.excluded[column.name] for column in answer_days.c if not column.primary_key
    }
    await connection.execute(
        insertion.on_conflict_do_update(index_elements=list(answer_days.primary_key), set_=grown), rows
    )


async def answers(database: Database, since: datetime) -> Sequence[Charge]:
    c = answer_days.c
    by = (c.key_id, c.model, c.version, c.currency)
    sums = [func.sum(column).label(column.name) for column in c if not column.primary_key]
    query = select(*by, *sums).where(c.day >= _day(since)).group_by(*by).order_by(*by)
    return [
        Charge.of_answers(
            row.key_id,
            VersionRef(row.model, row.version) if row.model else None,
            int(row.answers),
            Usage(
                prompt_tokens=int(row.prompt_tokens),
                completion_tokens=int(row.completion_tokens),
                cost=row.cost if row.currency else None,
                currency=row.currency,
            ),
        )
        for row in await database.rows(query)
    ]


def _day(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d}"


def _row(day: str, one: Charge) -> dict[str, str | int | float]:
    model, _, version = one.version.rpartition("@")
    return {
        "day": day,
        "key_id": one.actor,
        "model": model,
        "version": int(version),
        "currency": one.usage.currency,
        "answers": one.answers,
        "prompt_tokens": one.usage.prompt_tokens,
        "completion_tokens": one.usage.completion_tokens,
        "cost": one.usage.cost or 0.0,
    }
