"""EvaluationStore on SQLite and PostgreSQL."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from sqlalchemy import case, func, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from eval_service.adapters.rows import evaluation_row, sample_row, to_evaluation, to_sample
from eval_service.adapters.tables import evaluations, samples
from eval_service.domain.evaluation import PASSED, Evaluation, Progress, Sample, State
from eval_service.domain.ports import SampleKey
from eval_service.domain.statistics import Tally
from ratchet_kit.errors import NotFound, Unavailable
from ratchet_kit.idempotency import Request


class SqlEvaluationStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._reader = engine.execution_options(read_only=True)

    # Evaluations

    async def create(self, evaluation: Evaluation, request: Request) -> Evaluation:
        row = evaluation_row(evaluation) | {"request_id": request.id, "fingerprint": request.fingerprint}
        async with self._writing() as connection:
            await connection.execute(_insert(connection)(evaluations).values(row).on_conflict_do_nothing())
        stored = await self.find(request)
        assert stored is not None
        return stored

    async def find(self, request: Request) -> Evaluation | None:
        rows = await self._rows(select(evaluations).where(evaluations.c.request_id == request.id))
        if not rows:
            return None
        request.check_same(rows[0].fingerprint, "evaluation")
        return to_evaluation(rows[0])

    async def get(self, id: str) -> Evaluation:
        rows = await self._rows(select(evaluations).where(evaluations.c.id == id))
        if not rows:
            raise NotFound(f"there is no evaluation {id!r}")
        return to_evaluation(rows[0])

    async def list(self, limit: int, after: str | None) -> Sequence[Evaluation]:
        query = select(evaluations).order_by(evaluations.c.id.desc()).limit(limit)
        if after is not None:
            query = query.where(evaluations.c.id < after)
        return [to_evaluation(row) for row in await self._rows(query)]

    async def unfinished(self) -> Sequence[Evaluation]:
        states = [str(state) for state in State if not state.ended]
        query = select(evaluations).where(evaluations.c.state.in_(states)).order_by(evaluations.c.id)
        return [to_evaluation(row) for row in await self._rows(query)]

    async def change(self, id: str, change: Callable[[Evaluation], Evaluation]) -> Evaluation:
        async with self._writing() as connection:
            query = select(evaluations).where(evaluations.c.id == id).with_for_update()
            row = (await connection.execute(query)).first()
            if row is None:
                raise NotFound(f"there is no evaluation {id!r}")
            changed = change(to_evaluation(row))
            await connection.execute(update(evaluations).where(evaluations.c.id == id).values(evaluation_row(changed)))
        return changed

    # Samples

    async def add_sample(self, id: str, sample: Sample) -> None:
        async with self._writing() as connection:
            insertion = _insert(connection)(samples).values(sample_row(id, sample))
            await connection.execute(insertion.on_conflict_do_nothing())

    async def sample_keys(self, id: str) -> frozenset[SampleKey]:
        rows = await self._rows(select(samples.c.problem_id, samples.c.index).where(samples.c.evaluation_id == id))
        return frozenset(SampleKey(problem_id, index) for problem_id, index in rows)

    async def list_samples(self, id: str, limit: int, after: SampleKey | None) -> Sequence[Sample]:
        key = tuple_(samples.c.problem_id, samples.c.index)
        query = (
            select(samples)
            .where(samples.c.evaluation_id == id)
            .order_by(samples.c.problem_id, samples.c.index)
            .limit(limit)
        )
        if after is not None:
            query = query.where(key > (after.problem_id, after.index))
        return [to_sample(row) for row in await self._rows(query)]

    async def progress(self, ids: Sequence[str]) -> Mapping[str, Progress]:
        of_these = samples.c.evaluation_id.in_(ids)
        drawn = (
            select(samples.c.evaluation_id, func.count().label("drawn"))
            .where(of_these)
            .group_by(samples.c.evaluation_id, samples.c.problem_id)
            .subquery()
        )
        done = (
            select(drawn.c.evaluation_id, func.count())
            .join(evaluations, evaluations.c.id == drawn.c.evaluation_id)
            .where(drawn.c.drawn >= evaluations.c.samples_per_problem)
            .group_by(drawn.c.evaluation_id)
        )
        counted = (
            select(samples.c.evaluation_id, samples.c.verdict, func.count())
            .where(of_these)
            .group_by(samples.c.evaluation_id, samples.c.verdict)
        )
        problems: dict[str, int] = dict([tuple(row) for row in await self._rows(done)])
        verdicts: dict[str, dict[str, int]] = {id: {} for id in ids}
        for id, verdict, count in await self._rows(counted):
            verdicts[id][verdict] = count
        return {id: Progress(problems.get(id, 0), verdicts[id]) for id in ids}

    async def tallies(self, id: str) -> Mapping[str, Tally]:
        passed = func.sum(case((samples.c.verdict == PASSED, 1), else_=0))
        query = (
            select(samples.c.problem_id, func.count(), passed)
            .where(samples.c.evaluation_id == id)
            .group_by(samples.c.problem_id)
        )
        return {problem_id: Tally(count, good) for problem_id, count, good in await self._rows(query)}

    # Connections

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[AsyncConnection]:
        with _reachable():
            async with self._engine.begin() as connection:
                yield connection

    async def _rows(self, query: Any) -> Sequence[Any]:
        with _reachable():
            async with self._reader.connect() as connection:
                rows: Sequence[Any] = (await connection.execute(query)).all()
                return rows


def _insert(connection: AsyncConnection) -> Any:
    """The dialect's INSERT, which knows ON CONFLICT."""
    return (sqlite if connection.dialect.name == "sqlite" else postgresql).insert


@contextmanager
def _reachable() -> Iterator[None]:
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise Unavailable(f"the database of evaluations cannot be used: {error.orig}") from error
