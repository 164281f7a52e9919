"""BatchStore on SQLite and PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, and_, delete, exists, func, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from ratchet_kit.errors import NotFound, Unavailable
from ratchet_kit.idempotency import Request
from sandbox_service.adapters.batches import tables as t
from sandbox_service.domain import batch as domain
from sandbox_service.domain.batch import Batch, Chunk, ChunkRef, Claim, Record, State, Waiting
from sandbox_service.domain.queue import Priority

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
    def __init__(self, engine: AsyncEngine, migrate: Callable[[], Awaitable[None]]) -> None:
        """`migrate` brings the tables up to date, at first use: programs run whether the database is there or not."""
        self._engine = engine
        self._reader = engine.execution_options(read_only=True)
        self._migrate = migrate
        self._migrating = asyncio.Lock()
        self._migrated = False

    # Batches

    async def create(self, batch: Batch, programs: Sequence[bytes], request: Request) -> Batch:
        row = _batch_row(batch) | {"request_id": request.id, "fingerprint": request.fingerprint}
        async with self._writing() as connection:
            insertion = _insert(connection)(t.batches).values(row).on_conflict_do_nothing()
            if (await connection.execute(insertion.returning(t.batches.c.id))).first() is not None:
                await connection.execute(t.chunks.insert(), [_chunk_row(chunk) for chunk in domain.chunks(batch)])
                rows = [{"batch_id": batch.id, "index": i, "content": content} for i, content in enumerate(programs)]
                await connection.execute(t.programs.insert(), rows)
        stored = await self.find(request)
        assert stored is not None
        return stored

    async def find(self, request: Request) -> Batch | None:
        rows = await self._rows(_BATCH.where(t.batches.c.request_id == request.id))
        if not rows:
            return None
        request.check_same(rows[0].fingerprint, "batch")
        return _to_batch(rows[0])

    async def get(self, id: str) -> Batch:
        rows = await self._rows(_BATCH.where(t.batches.c.id == _storable(id)))
        if not rows:
            raise _no_batch(id)
        return _to_batch(rows[0])

    async def change(self, id: str, change: Callable[[Batch], Batch]) -> Batch:
        async with self._writing() as connection:
            changed = change(await self._locked(connection, id))
            await connection.execute(update(t.batches).where(t.batches.c.id == id).values(_batch_row(changed)))
        return changed

    async def forget(self, before: datetime) -> int:
        async with self._writing() as connection:
            return (await connection.execute(delete(t.batches).where(t.batches.c.end_time < before))).rowcount

    # Chunks

    async def claim(self, ref: ChunkRef, owner: str, now: datetime, lease: timedelta) -> Claim:
        async with self._writing() as connection:
            batch = await self._running(connection, ref.batch_id)
            chunk = (await self._chunk(connection, ref)).claim(owner, now, now + lease)
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
        async with self._writing() as connection:
            await self._running(connection, ref.batch_id)
            chunk = change(await self._chunk(connection, ref))
            await connection.execute(update(t.chunks).where(_is(ref)).values(_chunk_row(chunk)))
        return chunk

    async def finish(self, ref: ChunkRef, now: datetime) -> Batch:
        async with self._writing() as connection:
            batch = await self._locked(connection, ref.batch_id)  # one at a time: the last one sees all chunks done
            chunk = await self._chunk(connection, ref)
            of_chunk = (
                select(func.count())
                .select_from(t.records)
                .where(t.records.c.batch_id == batch.id, _within(t.records.c.index, chunk))
            )
            if (await connection.execute(of_chunk)).scalar_one() == chunk.size:
                await connection.execute(update(t.chunks).where(_is(ref)).values(done=True, owner="", until=None))
            undone = select(exists().where(t.chunks.c.batch_id == batch.id, t.chunks.c.done.is_(False)))
            if not batch.state.ended and not (await connection.execute(undone)).scalar_one():
                batch = batch.succeed(now)
                await connection.execute(update(t.batches).where(t.batches.c.id == batch.id).values(_batch_row(batch)))
        return batch

    async def waiting(self, now: datetime, limit: int) -> Sequence[Waiting]:
        query = (
            select(t.chunks.c.batch_id, t.chunks.c.first, t.batches.c.priority)
            .join(t.batches, t.batches.c.id == t.chunks.c.batch_id)
            .where(
                t.batches.c.state == str(State.RUNNING),
                t.chunks.c.done.is_(False),
                or_(t.chunks.c.until.is_(None), t.chunks.c.until <= now),
            )
            .order_by(t.chunks.c.batch_id, t.chunks.c.first)
            .limit(limit)
        )
        return [Waiting(ChunkRef(id, first), Priority(priority)) for id, first, priority in await self._rows(query)]

    # Records

    async def record(self, id: str, records: Sequence[Record]) -> int:
        if not records:
            return 0
        rows = [asdict(record) | {"batch_id": id} for record in records]
        async with self._writing() as connection:
            await self._running(connection, id)
            insertion = _insert(connection)(t.records).values(rows).on_conflict_do_nothing()
            return len((await connection.execute(insertion.returning(t.records.c.index))).all())

    async def recorded(self, id: str, first: int) -> Sequence[int]:
        query = select(t.records.c.index).where(t.records.c.batch_id == id, t.records.c.index >= first)
        return [index for (index,) in await self._rows(query.order_by(t.records.c.index))]

    async def records(self, id: str, indices: Sequence[int]) -> Sequence[Record]:
        query = select(t.records).where(t.records.c.batch_id == id, t.records.c.index.in_(indices))
        rows = await self._rows(query.order_by(t.records.c.index))
        return [Record(row._mapping["index"], row.verdict, row.content) for row in rows]

    # Rows and connections

    async def _locked(self, connection: AsyncConnection, id: str, *, shared: bool = False) -> Batch:
        """As it is until the end of the transaction: nobody changes it meanwhile."""
        query = _BATCH.where(t.batches.c.id == _storable(id)).with_for_update(read=shared, of=t.batches)
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
        return Chunk(ref, row.size, row.owner, row.until, row.attempts, row.done)

    async def _prepare(self) -> None:
        if self._migrated:
            return
        async with self._migrating:
            if not self._migrated:
                await self._migrate()
                self._migrated = True

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[AsyncConnection]:
        with _reachable():
            await self._prepare()
            async with self._engine.begin() as connection:
                yield connection

    async def _rows(self, query: Any) -> Sequence[Any]:
        with _reachable():
            await self._prepare()
            async with self._reader.connect() as connection:
                rows: Sequence[Any] = (await connection.execute(query)).all()
                return rows


def _batch_row(batch: Batch) -> dict[str, Any]:
    return {
        "id": batch.id,
        "programs_total": batch.programs_total,
        "priority": int(batch.priority),
        "caller": _storable(batch.caller),
        "state": str(batch.state),
        "create_time": batch.create_time,
        "end_time": batch.end_time,
    }


def _to_batch(row: Row[Any]) -> Batch:
    return Batch(
        row.id,
        row.programs_total,
        row.create_time,
        Priority(row.priority),
        row.caller,
        State(row.state),
        row.end_time,
        row.programs_done,
    )


def _chunk_row(chunk: Chunk) -> dict[str, Any]:
    return {
        "batch_id": chunk.ref.batch_id,
        "first": chunk.ref.first,
        "size": chunk.size,
        "owner": chunk.owner,
        "until": chunk.until,
        "attempts": chunk.attempts,
        "done": chunk.done,
    }


def _is(ref: ChunkRef) -> Any:
    return and_(t.chunks.c.batch_id == ref.batch_id, t.chunks.c.first == ref.first)


def _within(index: Any, chunk: Chunk) -> Any:
    return and_(index >= chunk.ref.first, index < chunk.ref.first + chunk.size)


def _insert(connection: AsyncConnection) -> Any:
    """The dialect's INSERT, which knows ON CONFLICT."""
    return (sqlite if connection.dialect.name == "sqlite" else postgresql).insert


def _storable(text: str) -> str:
    """PostgreSQL's texts hold no NUL."""
    return text.replace("\0", "\ufffd")


def _no_batch(id: str) -> NotFound:
    return NotFound(f"there is no batch {id!r}")


@contextmanager
def _reachable() -> Iterator[None]:
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise Unavailable(f"the database of batches cannot be used: {error.orig}") from error
