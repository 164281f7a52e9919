"""BatchStore on SQLite and PostgreSQL."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, delete, exists, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from ratchet_kit import sql
from ratchet_kit.errors import NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.text import storable
from ratchet_kit.work import Hold, Priority, Waiting
from sandbox_service.adapters.batches import tables as t
from sandbox_service.domain import batch as domain
from sandbox_service.domain.batch import Batch, Chunk, ChunkRef, Claim, Record, State

_DONE = (
    select(func.count())
    .select_from(t.records)
    .where(t.records.c.batch_id == t.batches.c.id)
    .correlate(t.batches)
    .scalar_subquery()
    .label("programs_done")
)
_BATCH = select(t.batches, _DONE)


class SqlBatchStore:
    def __init__(self, database: sql.Database) -> None:
        self._database = database

    # Batches

    async def create(self, batch: Batch, programs: Sequence[bytes], request: Request) -> Batch:
        async with self._database.writing() as connection:
            if await sql.insert_if_absent(connection, t.batches, _batch_row(batch) | request.columns):
                await connection.execute(t.chunks.insert(), [_chunk_row(chunk) for chunk in domain.chunks(batch)])
                rows = [{"batch_id": batch.id, "index": i, "content": content} for i, content in enumerate(programs)]
                await connection.execute(t.programs.insert(), rows)
        stored = await self.find(request)
        assert stored is not None
        return stored

    async def find(self, request: Request) -> Batch | None:
        row = await self._database.made_by(request, _BATCH, "batch")
        return _to_batch(row) if row else None

    async def get(self, id: str) -> Batch:
        row = await self._database.first(_BATCH.where(t.batches.c.id == storable(id)))
        if row is None:
            raise _no_batch(id)
        return _to_batch(row)

    async def page(self, caller: str, limit: int, after: str | None) -> Sequence[Batch]:
        own = _BATCH.where(t.batches.c.caller == storable(caller))
        query = own.order_by(t.batches.c.id.desc())  # ids are in the order of time
        if after is not None:
            query = query.where(t.batches.c.id < storable(after))
        return await self._database.readable(query, _to_batch, limit)

    async def change(self, id: str, change: Callable[[Batch], Batch]) -> Batch:
        async with self._database.writing() as connection:
            changed = change(await self._locked(connection, id))
            await connection.execute(update(t.batches).where(t.batches.c.id == id).values(_batch_row(changed)))
        return changed

    async def delete(self, id: str) -> None:
        async with self._database.writing() as connection:
            (await self._locked(connection, id)).must_have_ended("be deleted")
            await connection.execute(delete(t.batches).where(t.batches.c.id == id))

    async def forget(self, before: datetime) -> int:
        async with self._database.writing() as connection:
            return (await connection.execute(delete(t.batches).where(t.batches.c.end_time < before))).rowcount

    # Chunks

    async def claim(self, ref: ChunkRef, owner: str, now: datetime, lease: timedelta) -> Claim:
        async with self._database.writing() as connection:
            batch = await self._running(connection, ref.batch_id)
            chunk = (await self._chunk(connection, ref)).claim(owner, now, lease)
            await connection.execute(update(t.chunks).where(_is(ref)).values(_chunk_row(chunk)))
            unrecorded = (
                select(t.programs.c.index, t.programs.c.content)
                .outerjoin(
                    t.records,
                    and_(t.records.c.batch_id == t.programs.c.batch_id, t.records.c.index == t.programs.c.index),
                )
                .where(
                    t.programs.c.batch_id == ref.batch_id,
                    _within(t.programs.c.index, chunk),
                    t.records.c.index.is_(None),
                )
                .order_by(t.programs.c.index)
            )
            rows = (await connection.execute(unrecorded)).all()
        return Claim(chunk, batch.priority, batch.caller, dict([tuple(row) for row in rows]))

    async def change_chunk(self, ref: ChunkRef, change: Callable[[Chunk], Chunk]) -> Chunk:
        async with self._database.writing() as connection:
            await self._running(connection, ref.batch_id)
            chunk = change(await self._chunk(connection, ref))
            await connection.execute(update(t.chunks).where(_is(ref)).values(_chunk_row(chunk)))
        return chunk

    async def finish(self, ref: ChunkRef, now: datetime) -> Batch:
        async with self._database.writing() as connection:
            batch = await self._locked(connection, ref.batch_id)  # one at a time: the last one sees all chunks done
            chunk = await self._chunk(connection, ref)
            of_chunk = (
                select(func.count())
                .select_from(t.records)
                .where(t.records.c.batch_id == batch.id, _within(t.records.c.index, chunk))
            )
            if (await connection.execute(of_chunk)).scalar_one() == chunk.size:
                await connection.execute(
                    update(t.chunks).where(_is(ref)).values(_chunk_row(replace(chunk, done=True, hold=Hold())))
                )
            undone = select(exists().where(t.chunks.c.batch_id == batch.id, t.chunks.c.done.is_(False)))
            if not batch.state.ended and not (await connection.execute(undone)).scalar_one():
                batch = batch.succeed(now)
                await connection.execute(update(t.batches).where(t.batches.c.id == batch.id).values(_batch_row(batch)))
        return batch

    async def waiting(self, now: datetime, limit: int) -> Sequence[Waiting]:
        query = (
            select(t.chunks.c.batch_id, t.chunks.c.first, t.batches.c.create_time, t.batches.c.priority)
            .join(t.batches, t.batches.c.id == t.chunks.c.batch_id)
            .where(
                t.batches.c.state == State.RUNNING.value,
                t.chunks.c.done.is_(False),
                sql.is_free(t.chunks, now),
            )
            .order_by(t.chunks.c.batch_id, t.chunks.c.first)
            .limit(limit)
        )
        return [
            Waiting(str(ChunkRef(row.batch_id, row.first)), row.create_time, Priority(row.priority))
            for row in await self._database.rows(query)
        ]

    # Records

    async def record(self, id: str, records: Sequence[Record]) -> int:
        async with self._database.writing() as connection:
            await self._running(connection, id)
            return await sql.insert_if_absent(
                connection, t.records, [asdict(record) | {"batch_id": id} for record in records]
            )

    async def recorded(self, id: str, first: int) -> Sequence[int]:
        query = select(t.records.c.index).where(t.records.c.batch_id == id, t.records.c.index >= first)
        return [index for (index,) in await self._database.rows(query.order_by(t.records.c.index))]

    async def records(self, id: str, indices: Sequence[int]) -> Sequence[Record]:
        query = select(t.records).where(t.records.c.batch_id == id, t.records.c.index.in_(indices))
        rows = await self._database.rows(query.order_by(t.records.c.index))
        return [Record(row._mapping["index"], row.verdict, row.content) for row in rows]

    # Rows

    async def _locked(self, connection: AsyncConnection, id: str, *, shared: bool = False) -> Batch:
        """As it is until the end of the transaction: it can't change meanwhile."""
        query = _BATCH.where(t.batches.c.id == storable(id)).with_for_update(read=shared, of=t.batches)
        row = (await connection.execute(query)).first()
        if row is None:
            raise _no_batch(id)
        return _to_batch(row)

    async def _running(self, connection: AsyncConnection, id: str) -> Batch:
        batch = await self._locked(connection, id, shared=True)
        batch.must_run("be worked on")
        return batch

    async def _chunk(self, connection: AsyncConnection, ref: ChunkRef) -> Chunk:
        row = (await connection.execute(select(t.chunks).where(_is(ref)).with_for_update())).first()
        if row is None:
            raise NotFound(f"batch {ref.batch_id} has no chunk at {ref.first}")
        return Chunk(ref, row.size, row.done, hold=sql.hold_of(row))


def _batch_row(batch: Batch) -> dict[str, Any]:
    return sql.row_of(batch, t.batches, caller=storable(batch.caller))


def _to_batch(row: Row[Any]) -> Batch:
    return sql.value_of(Batch, row, priority=Priority(row.priority), state=State(row.state))


def _chunk_row(chunk: Chunk) -> dict[str, Any]:
    return {
        "batch_id": chunk.ref.batch_id,
        "first": chunk.ref.first,
        "size": chunk.size,
        "done": chunk.done,
        **sql.hold_row(chunk.hold),
    }


def _is(ref: ChunkRef) -> ColumnElement[bool]:
    return and_(t.chunks.c.batch_id == ref.batch_id, t.chunks.c.first == ref.first)


def _within(index: ColumnElement[int], chunk: Chunk) -> ColumnElement[bool]:
    return and_(index >= chunk.ref.first, index < chunk.ref.first + chunk.size)


def _no_batch(id: str) -> NotFound:
    return NotFound(f"there is no batch {id!r}")
