"""RunStore on SQLite and PostgreSQL."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from sqlalchemy import Row, Select, Table, and_, func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from ratchet_kit.errors import AlreadyExists, NotFound, Unavailable
from trainer_service.adapters.rows import checkpoint_row, run_row, step_row, to_checkpoint, to_run, to_step
from trainer_service.adapters.tables import checkpoints, runs, steps
from trainer_service.domain.run import UNFINISHED, Checkpoint, Run, RunId, State, Step

_BEST = and_(checkpoints.c.run_id == runs.c.id, checkpoints.c.step == runs.c.best_step)
_COLUMNS = [column.label(f"best_{column.name}_") for column in checkpoints.c]


class SqlRunStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._reader = engine.execution_options(read_only=True)

    async def add(self, run: Run, request_id: str, fingerprint: str) -> Run:
        row = run_row(run) | {"request_id": request_id, "fingerprint": fingerprint}
        async with self._writing() as connection:
            await connection.execute(_insert(connection, runs, row).on_conflict_do_nothing())
        stored = await self.of_request(request_id, fingerprint)
        assert stored is not None
        return stored

    async def of_request(self, request_id: str, fingerprint: str) -> Run | None:
        async with self._reading() as connection:
            query = select(runs.c.id, runs.c.fingerprint).where(runs.c.request_id == request_id)
            row = (await connection.execute(query)).first()
            if row is None:
                return None
            if row.fingerprint != fingerprint:
                raise AlreadyExists(f"request {request_id} made run {row.id} from another spec")
            return await _run(connection, RunId(row.id))

    async def get(self, id: RunId) -> Run:
        async with self._reading() as connection:
            return await _run(connection, id)

    async def page(self, limit: int, after: str | None, state: State | None) -> Sequence[Run]:
        query = _runs().order_by(runs.c.id.desc()).limit(limit)
        if after is not None:
            query = query.where(runs.c.id < after)
        if state is not None:
            query = query.where(runs.c.state == state.value)
        return [_to_run(row) for row in await self._all(query)]

    async def unfinished(self) -> Sequence[Run]:
        query = _runs().where(runs.c.state.in_([state.value for state in UNFINISHED])).order_by(runs.c.id)
        return [_to_run(row) for row in await self._all(query)]

    async def counts(self) -> Mapping[State, int]:
        rows = await self._all(select(runs.c.state, func.count().label("runs")).group_by(runs.c.state))
        return {State(row.state): row.runs for row in rows}

    async def change(self, id: RunId, change: Callable[[Run], Run]) -> Run:
        async with self._writing() as connection:
            return await _store(connection, change(await _locked(connection, id)))

    async def record_step(self, id: RunId, step: Step, change: Callable[[Run, Step | None], Run]) -> Run:
        async with self._writing() as connection:
            run = await _locked(connection, id)
            query = select(steps).where(steps.c.run_id == id, steps.c.number == step.number)
            before = (await connection.execute(query)).first()
            changed = change(run, to_step(before) if before else None)
            await _upsert(connection, steps, step_row(id, step))
            return await _store(connection, changed)

    async def record_checkpoint(
        self, id: RunId, checkpoint: Checkpoint, change: Callable[[Run, Sequence[Checkpoint]], Run]
    ) -> Run:
        async with self._writing() as connection:
            run = await _locked(connection, id)
            await _upsert(connection, checkpoints, checkpoint_row(id, checkpoint))
            query = select(checkpoints).where(checkpoints.c.run_id == id).order_by(checkpoints.c.step)
            all_of_it = [to_checkpoint(row) for row in await connection.execute(query)]
            return await _store(connection, change(run, all_of_it))

    async def steps(self, id: RunId, limit: int, after: int) -> Sequence[Step]:
        query = select(steps).where(steps.c.run_id == id, steps.c.number > after).order_by(steps.c.number)
        return [to_step(row) for row in await self._all(query.limit(limit))]

    async def checkpoints(self, id: RunId, limit: int, after: int) -> Sequence[Checkpoint]:
        is_next = (checkpoints.c.run_id == id, checkpoints.c.step > after)
        query = select(checkpoints).where(*is_next).order_by(checkpoints.c.step)
        return [to_checkpoint(row) for row in await self._all(query.limit(limit))]

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[AsyncConnection]:
        with _reachable():
            async with self._engine.begin() as connection:
                yield connection

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[AsyncConnection]:
        with _reachable():
            async with self._reader.connect() as connection:
                yield connection

    async def _all(self, query: Select[Any]) -> Sequence[Row[Any]]:
        async with self._reading() as connection:
            rows: Sequence[Row[Any]] = (await connection.execute(query)).all()
            return rows


def _runs() -> Select[Any]:
    return select(runs, *_COLUMNS).join(checkpoints, _BEST, isouter=True)


def _to_run(row: Row[Any]) -> Run:
    if row.best_step is None:
        return to_run(row, None)
    best = Checkpoint(row.best_step_, row.best_uri_, row.best_policy_id_, row.best_time_, row.best_validation_score_)
    return to_run(row, best)


async def _run(connection: AsyncConnection, id: RunId) -> Run:
    row = (await connection.execute(_runs().where(runs.c.id == id))).first()
    if row is None:
        raise NotFound(f"there is no run {id!r}")
    return _to_run(row)


async def _locked(connection: AsyncConnection, id: RunId) -> Run:
    """The run, which only this transaction can change. SQLite's transaction holds the only write lock already."""
    await connection.execute(select(runs.c.id).where(runs.c.id == id).with_for_update())
    return await _run(connection, id)


async def _store(connection: AsyncConnection, run: Run) -> Run:
    await connection.execute(update(runs).where(runs.c.id == run.id).values(run_row(run)))
    return run


async def _upsert(connection: AsyncConnection, table: Table, row: Mapping[str, Any]) -> None:
    keys = [column.name for column in table.primary_key]
    values = {name: value for name, value in row.items() if name not in keys}
    await connection.execute(_insert(connection, table, row).on_conflict_do_update(index_elements=keys, set_=values))


def _insert(connection: AsyncConnection, table: Table, row: Mapping[str, Any]) -> Any:
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    return dialect.insert(table).values(row)


@contextmanager
def _reachable() -> Iterator[None]:
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise Unavailable(f"the trainer's database cannot be used: {error.orig}") from error
