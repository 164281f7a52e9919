"""RunStore on SQLite and PostgreSQL."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, and_, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from ratchet_kit.errors import NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.sql import Database, read_each, upsert
from trainer_service.adapters.rows import checkpoint_row, run_row, step_row, to_checkpoint, to_run, to_step
from trainer_service.adapters.tables import checkpoints, runs, steps
from trainer_service.domain.run.checkpoint import Checkpoint
from trainer_service.domain.run.ports import RunFilter
from trainer_service.domain.run.run import UNFINISHED, Run, RunId, State, Step

_BEST = and_(checkpoints.c.run_id == runs.c.id, checkpoints.c.step == runs.c.best_step)
_BEST_LABEL = "best_{}_"
_IS_UNFINISHED = runs.c.state.in_([state.value for state in UNFINISHED])
_COLUMNS = [column.label(_BEST_LABEL.format(column.name)) for column in checkpoints.c]


class SqlRunStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, run: Run, request: Request) -> Run:
        await self._database.insert_if_absent(runs, run_row(run) | request.columns)
        stored = await self.made_by(request)
        assert stored is not None
        return stored

    async def made_by(self, request: Request) -> Run | None:
        row = await self._database.made_by(request, _runs(), "run")
        return _to_run(row) if row else None

    async def get(self, id: RunId) -> Run:
        async with self._database.reading() as connection:
            return await _run(connection, id)

    async def page(self, limit: int, after: str | None, only: RunFilter = RunFilter()) -> Sequence[Run]:
        query = _runs().order_by(runs.c.id.desc())
        if after is not None:
            query = query.where(runs.c.id < after)
        if only.state is not None:
            query = query.where(runs.c.state == only.state.value)
        if only.model:
            query = query.where(or_(runs.c.base_model == only.model, runs.c.output_model == only.model))
        if only.name:
            query = query.where(runs.c.display_name.icontains(only.name, autoescape=True))
        if only.after_time is not None:
            query = query.where(runs.c.create_time >= only.after_time)
        return await self._database.readable(query, _to_run, limit)

    async def unfinished(self) -> Sequence[Run]:
        return await self._database.readable(_runs().where(_IS_UNFINISHED).order_by(runs.c.id), _to_run)

    async def tracked(self) -> Sequence[Run]:
        return await self._database.readable(_runs().where(runs.c.is_tracked).order_by(runs.c.id), _to_run)

    async def counts(self) -> Mapping[State, int]:
        query = select(runs.c.state, func.count().label("runs")).group_by(runs.c.state)
        return {State(row.state): row.runs for row in await self._database.rows(query)}

    async def delete(self, id: RunId) -> None:
        async with self._database.writing() as connection:
            await _locked(connection, id)
            await connection.execute(delete(runs).where(runs.c.id == id))

    async def change(self, id: RunId, change: Callable[[Run], Run]) -> Run:
        async with self._database.writing() as connection:
            return await _store(connection, change(await _locked(connection, id)))

    async def arrange(self, change: Callable[[Sequence[Run]], Sequence[Run]]) -> Sequence[Run]:
        async with self._database.writing() as connection:
            await connection.execute(select(runs.c.id).where(_IS_UNFINISHED).order_by(runs.c.id).with_for_update())
            found: list[Run] = []
            read_each(await connection.execute(_runs().where(_IS_UNFINISHED).order_by(runs.c.id)), _to_run, found)
            return [await _store(connection, run) for run in change(found)]

    async def record_step(self, id: RunId, step: Step, change: Callable[[Run, Step | None], Run]) -> Run:
        async with self._database.writing() as connection:
            run = await _locked(connection, id)
            query = select(steps).where(steps.c.run_id == id, steps.c.number == step.number)
            before = (await connection.execute(query)).first()
            changed = change(run, to_step(before) if before else None)
            await upsert(connection, steps, step_row(id, step))
            return await _store(connection, changed)

    async def record_checkpoint(
        self, id: RunId, checkpoint: Checkpoint, change: Callable[[Run, Sequence[Checkpoint]], Run]
    ) -> Run:
        async with self._database.writing() as connection:
            run = await _locked(connection, id)
            await upsert(connection, checkpoints, checkpoint_row(id, checkpoint))
            query = select(checkpoints).where(checkpoints.c.run_id == id).order_by(checkpoints.c.step)
            of_run = [to_checkpoint(row) for row in await connection.execute(query)]
            return await _store(connection, change(run, of_run))

    async def change_checkpoint(
        self,
        id: RunId,
        step: int,
        change: Callable[[Checkpoint], Checkpoint],
        then: Callable[[Run, Sequence[Checkpoint]], Run],
    ) -> Run:
        async with self._database.writing() as connection:
            run = await _locked(connection, id)
            query = select(checkpoints).where(checkpoints.c.run_id == id).order_by(checkpoints.c.step)
            of_run = {row.step: to_checkpoint(row) for row in await connection.execute(query)}
            if step not in of_run:
                raise NotFound(f"run {id} has no checkpoint of step {step}")
            of_run[step] = changed = change(of_run[step])
            await upsert(connection, checkpoints, checkpoint_row(id, changed))
            is_it = (steps.c.run_id == id, steps.c.number == step)
            if changed.metrics and (row := (await connection.execute(select(steps).where(*is_it))).first()):
                known = to_step(row)
                both = replace(known, metrics={**known.metrics, **changed.metrics})
                await upsert(connection, steps, step_row(id, both))
            return await _store(connection, then(run, list(of_run.values())))

    async def steps(self, id: RunId, limit: int, after: int) -> Sequence[Step]:
        query = select(steps).where(steps.c.run_id == id, steps.c.number > after).order_by(steps.c.number)
        return await self._database.readable(query, to_step, limit)

    async def superseded(self, before: datetime) -> Sequence[tuple[RunId, Checkpoint]]:
        query = (
            select(checkpoints)
            .join(runs, runs.c.id == checkpoints.c.run_id)
            .where(runs.c.end_time < before, or_(runs.c.best_step.is_(None), runs.c.best_step != checkpoints.c.step))
            .order_by(checkpoints.c.run_id, checkpoints.c.step)
        )
        return await self._database.readable(query, lambda row: (RunId(row.run_id), to_checkpoint(row)))

    async def delete_checkpoint(self, id: RunId, step: int) -> None:
        async with self._database.writing() as connection:
            is_it = (checkpoints.c.run_id == id, checkpoints.c.step == step)
            await connection.execute(delete(checkpoints).where(*is_it))

    async def checkpoints(self, id: RunId, limit: int, after: int) -> Sequence[Checkpoint]:
        is_next = (checkpoints.c.run_id == id, checkpoints.c.step > after)
        query = select(checkpoints).where(*is_next).order_by(checkpoints.c.step)
        return await self._database.readable(query, to_checkpoint, limit)


def _runs() -> Select[Any]:
    return select(runs, *_COLUMNS).join(checkpoints, _BEST, isouter=True)


def _to_run(row: Row[Any]) -> Run:
    if row.best_step is None:
        return to_run(row, None)
    return to_run(row, to_checkpoint(row, _BEST_LABEL))


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
