"""ExchangeStore on SQLite and PostgreSQL, and what the request log writes of it in its own transactions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Row, String, Table, and_, cast, delete, not_, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway_service.adapters.sql import metrics as measured
from gateway_service.adapters.sql.tables import completions, exchanges, feedback, forgotten, revisions
from gateway_service.domain.traffic.exchange import Accepted, Choice, Exchange, Selection
from gateway_service.domain.traffic.material import Material
from gateway_service.domain.traffic.metrics import NO_METRICS, Metrics
from gateway_service.domain.traffic.ports import NO_SCORE
from gateway_service.domain.traffic.record import Arm, CompletionRecord, ProblemRef, Unit, unit_id
from ratchet_kit import sql
from ratchet_kit.errors import NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.ids import new_id
from ratchet_kit.names import VersionRef
from ratchet_kit.sql import Database, row_of, value_of

AT_ONCE = 1000
"""Rows that one transaction removes: others wait for it."""
NAME = "forgotten"
"""Of the revision that whoever forgets changes, and whoever appends holds."""

_materials = TypeAdapter(Material)
_accepted = TypeAdapter(Accepted | None)
_choices = TypeAdapter(tuple[Choice, ...])


class SqlExchangeStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, completion_id: str) -> Exchange:
        row = await self._database.first(select(exchanges).where(exchanges.c.id == completion_id))
        if row is None:
            raise _not_kept(completion_id)
        return _exchange(row)

    async def some(self, completion_ids: Sequence[str]) -> Sequence[Exchange]:
        query = select(exchanges).where(exchanges.c.id.in_(completion_ids))
        return await self._database.readable(query, _exchange) if completion_ids else ()

    async def beside(self, exchange: Exchange, limit: int) -> Sequence[Exchange]:
        c, found = exchanges.c, list[Exchange]()
        query = select(exchanges).where(c.session_unit == exchange.session)
        if not exchange.session:
            query = query.where(c.key_id == exchange.key_id, c.user_unit == exchange.user)
        for part in (
            query.where(c.id < exchange.id).order_by(c.id.desc()),
            query.where(c.id > exchange.id).order_by(c.id),
        ):
            found += await self._database.readable(part, _exchange, limit)
        return found

    async def page(self, selection: Selection, limit: int, after: str | None) -> Sequence[Exchange]:
        c = exchanges.c
        query = select(exchanges).order_by(c.id.desc())
        if selection.model:
            query = query.where(c.model == selection.model)
        if selection.key_id:
            query = query.where(c.key_id == selection.key_id)
        if selection.start_time:
            query = query.where(c.start_time >= selection.start_time)
        if selection.end_time:
            query = query.where(c.start_time < selection.end_time)
        if selection.session:
            query = query.where(c.session_unit == unit_id(Unit.SESSION, selection.session))
        if selection.accepted:
            query = query.where(c.is_accepted)
        if selection.compared:
            query = query.where(c.is_compared)
        if after is not None:
            query = query.where(c.id < after)
        return await self._database.readable(query, _exchange, limit)

    async def accept(
        self, completion_id: str, accepted: Accepted, request: Request, metrics: Metrics = NO_METRICS
    ) -> None:
        async with self._database.writing() as connection:
            if await note(connection, completion_id, request, NO_SCORE):
                await measured.add(connection, completion_id, metrics)
                exchange = await _locked(connection, completion_id)
                await _save(connection, replace(exchange, accepted=accepted))
        await self._database.made_by(request, select(feedback), "feedback")

    async def choose(self, completion_id: str, choice: Choice, request: Request, metrics: Metrics = NO_METRICS) -> None:
        async with self._database.writing() as connection:
            if await note(connection, completion_id, request, NO_SCORE):
                await measured.add(connection, completion_id, metrics)
                exchange = await _locked(connection, completion_id)
                if choice not in exchange.choices:
                    await _save(connection, replace(exchange, choices=(*exchange.choices, choice)))
        await self._database.made_by(request, select(feedback), "feedback")

    async def forget(self, unit: Unit, name: str, before: datetime) -> int:
        async with self._database.writing() as connection:
            change = update(revisions).where(revisions.c.name == NAME).values(revision=revisions.c.revision + 1)
            await connection.execute(change)
            row = {"unit": unit_id(unit, name), "forget_time": before, "confirmed": False}
            await sql.upsert(connection, forgotten, row)
        # From here on nobody stores such texts: what is there is removed, a part at a time.
        kept = and_(_is_of(exchanges, unit, name), exchanges.c.start_time <= before)
        removed = await self._delete(kept)
        of_unit = or_(_is_of(completions, unit, name), completions.c.unit == unit_id(unit, name))
        has_texts = cast(completions.c.texts, String) != "[]"
        removed += await self._drop_texts(and_(of_unit, completions.c.start_time <= before, has_texts))
        await self._database.wipe()
        return removed

    async def remove(self, before: datetime) -> int:
        removed = await self._delete(exchanges.c.start_time < before)
        async with self._database.writing() as connection:
            await connection.execute(delete(forgotten).where(forgotten.c.forget_time < before, forgotten.c.confirmed))
        return removed

    async def unconfirmed(self) -> Mapping[str, datetime]:
        query = select(forgotten).where(not_(forgotten.c.confirmed)).limit(AT_ONCE)
        return {row.unit: row.forget_time for row in await self._database.rows(query)}

    async def confirm(self, units: Mapping[str, datetime]) -> None:
        async with self._database.writing() as connection:
            for unit, time in units.items():
                same = and_(forgotten.c.unit == unit, forgotten.c.forget_time == time)
                await connection.execute(update(forgotten).where(same).values(confirmed=True))

    async def _delete(self, where: ColumnElement[bool]) -> int:
        removed, last = 0, AT_ONCE
        while last == AT_ONCE:
            ids = select(exchanges.c.id).where(where).limit(AT_ONCE)
            async with self._database.writing() as connection:
                last = (await connection.execute(delete(exchanges).where(exchanges.c.id.in_(ids)))).rowcount
            removed += last
        return removed

    async def _drop_texts(self, where: ColumnElement[bool]) -> int:
        dropped, after, c = 0, "", completions.c
        while True:
            found = await self._database.rows(select(c.id).where(where, c.id > after).order_by(c.id).limit(AT_ONCE))
            ids = [row.id for row in found]
            if ids:
                async with self._database.writing() as connection:
                    await connection.execute(update(completions).where(c.id.in_(ids)).values(texts=[]))
            dropped += len(ids)
            if len(ids) < AT_ONCE:
                return dropped
            after = ids[-1]


async def sifted(connection: AsyncConnection, records: Sequence[CompletionRecord]) -> Sequence[CompletionRecord]:
    """The records, without the texts of who was forgotten since. Until the transaction ends nobody is forgotten."""
    if not any(record.texts or record.material for record in records):
        return records
    await connection.execute(select(revisions.c.revision).where(revisions.c.name == NAME).with_for_update(read=True))
    units = {unit for record in records for unit in _units(record)}
    rows = (await connection.execute(select(forgotten).where(forgotten.c.unit.in_(units)))).all()
    times = {row.unit: row.forget_time for row in rows}
    return [_sifted(record, times) for record in records] if times else records


async def add(connection: AsyncConnection, records: Sequence[CompletionRecord]) -> None:
    """What is kept of the records."""
    rows = [_row(Exchange.of(record)) for record in records if record.material is not None]
    await sql.insert_all_if_absent(connection, exchanges, rows)


async def rescore(connection: AsyncConnection, completion_id: str, score: float, problem: ProblemRef | None) -> None:
    """Of an exchange, where there is one."""
    values = {
        "score": score,
        "problem_set": problem.problem_set if problem else "",
        "problem_id": problem.problem_id if problem else "",
    }
    await connection.execute(update(exchanges).where(exchanges.c.id == completion_id).values(values))


async def note(connection: AsyncConnection, completion_id: str, request: Request, score: float) -> bool:
    """Stores that the request gave feedback. False where it did before."""
    given = {"id": new_id("fb"), "completion_id": completion_id, "score": score, "create_time": datetime.now(UTC)}
    return bool(await sql.insert_if_absent(connection, feedback, given | request.columns))


def _units(record: CompletionRecord) -> Sequence[str]:
    return [unit for unit in (record.user, record.session, unit_id(Unit.KEY, record.key_id)) if unit]


def _sifted(record: CompletionRecord, times: Mapping[str, datetime]) -> CompletionRecord:
    is_forgotten = any(unit in times and record.start_time <= times[unit] for unit in _units(record))
    return replace(record, texts=(), material=None) if is_forgotten else record


def _is_of(table: Table, unit: Unit, name: str) -> ColumnElement[bool]:
    match unit:
        case Unit.USER:
            return table.c.user_unit == unit_id(unit, name)
        case Unit.SESSION:
            return table.c.session_unit == unit_id(unit, name)
        case Unit.KEY:
            return table.c.key_id == name
    raise ValueError(f"nothing is kept of a {unit}")


async def _locked(connection: AsyncConnection, completion_id: str) -> Exchange:
    found = select(exchanges).where(exchanges.c.id == completion_id).with_for_update()
    row = (await connection.execute(found)).one_or_none()
    if row is None:
        raise _not_kept(completion_id)
    return _exchange(row)


async def _save(connection: AsyncConnection, exchange: Exchange) -> None:
    await connection.execute(update(exchanges).where(exchanges.c.id == exchange.id).values(_said(exchange)))


def _not_kept(completion_id: str) -> NotFound:
    return NotFound(f"nothing is kept of completion {completion_id}")


def _row(exchange: Exchange) -> dict[str, Any]:
    return row_of(
        exchange,
        exchanges,
        model=exchange.version.model,
        version=exchange.version.number,
        user_unit=exchange.user,
        session_unit=exchange.session,
        latency_s=exchange.latency.total_seconds(),
        material=_materials.dump_python(exchange.material, mode="json"),
        problem_set=exchange.problem.problem_set if exchange.problem else "",
        problem_id=exchange.problem.problem_id if exchange.problem else "",
        **_said(exchange),
    )


def _said(exchange: Exchange) -> dict[str, Any]:
    return {
        "accepted": _accepted.dump_python(exchange.accepted, mode="json"),
        "choices": _choices.dump_python(exchange.choices, mode="json"),
        "is_accepted": exchange.accepted is not None,
        "is_compared": exchange.is_compared,
    }


def _exchange(row: Row[Any]) -> Exchange:
    return value_of(
        Exchange,
        row,
        version=VersionRef(row.model, row.version),
        arm=Arm(row.arm),
        material=_materials.validate_python(row.material),
        user=row.user_unit,
        session=row.session_unit,
        latency=timedelta(seconds=row.latency_s),
        problem=ProblemRef(row.problem_set, row.problem_id) if row.problem_id else None,
        accepted=_accepted.validate_python(row.accepted),
        choices=_choices.validate_python(row.choices),
    )
