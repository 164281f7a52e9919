"""EvaluationStore on SQLite and PostgreSQL."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import case, delete, func, select, tuple_, update

from eval_service.adapters.rows import evaluation_row, sample_row, to_evaluation, to_sample
from eval_service.adapters.tables import evaluations, samples
from eval_service.domain.evaluation import Evaluation, Progress, Sample, State
from eval_service.domain.ports import SampleKey
from eval_service.domain.statistics import Tally
from ratchet_kit.errors import NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.sql import Database, is_free
from ratchet_rewards import PASSED


class SqlEvaluationStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    # Evaluations

    async def create(self, evaluation: Evaluation, request: Request) -> Evaluation:
        await self._database.insert_if_absent(evaluations, evaluation_row(evaluation) | request.columns)
        stored = await self.find(request)
        assert stored is not None
        return stored

    async def find(self, request: Request) -> Evaluation | None:
        row = await self._database.made_by(request, select(evaluations), "evaluation")
        return None if row is None else to_evaluation(row)

    async def get(self, id: str) -> Evaluation:
        row = await self._database.first(select(evaluations).where(evaluations.c.id == id))
        if row is None:
            raise NotFound(f"there is no evaluation {id!r}")
        return to_evaluation(row)

    async def page(self, limit: int, after: str | None) -> Sequence[Evaluation]:
        query = select(evaluations).order_by(evaluations.c.id.desc()).limit(limit)
        if after is not None:
            query = query.where(evaluations.c.id < after)
        return [to_evaluation(row) for row in await self._database.rows(query)]

    async def waiting(self, now: datetime) -> Sequence[Evaluation]:
        under_way = evaluations.c.state.in_([str(state) for state in State if not state.ended])
        query = select(evaluations).where(under_way, is_free(evaluations, now)).order_by(evaluations.c.id)
        return [to_evaluation(row) for row in await self._database.rows(query)]

    async def change(self, id: str, change: Callable[[Evaluation], Evaluation]) -> Evaluation:
        async with self._database.writing() as connection:
            query = select(evaluations).where(evaluations.c.id == id).with_for_update()
            row = (await connection.execute(query)).first()
            if row is None:
                raise NotFound(f"there is no evaluation {id!r}")
            changed = change(to_evaluation(row))
            await connection.execute(update(evaluations).where(evaluations.c.id == id).values(evaluation_row(changed)))
        return changed

    async def delete(self, id: str) -> None:
        async with self._database.writing() as connection:
            await connection.execute(delete(samples).where(samples.c.evaluation_id == id))
            await connection.execute(delete(evaluations).where(evaluations.c.id == id))

    # Samples

    async def add_sample(self, id: str, sample: Sample) -> None:
        await self._database.insert_if_absent(samples, sample_row(id, sample))

    async def sample_keys(self, id: str) -> frozenset[SampleKey]:
        rows = await self._database.rows(
            select(samples.c.problem_id, samples.c.index.label("number")).where(samples.c.evaluation_id == id)
        )
        return frozenset(SampleKey(row.problem_id, row.number) for row in rows)

    async def sample_page(self, id: str, limit: int, after: SampleKey | None) -> Sequence[Sample]:
        key = tuple_(samples.c.problem_id, samples.c.index)
        query = (
            select(samples)
            .where(samples.c.evaluation_id == id)
            .order_by(samples.c.problem_id, samples.c.index)
            .limit(limit)
        )
        if after is not None:
            query = query.where(key > (after.problem_id, after.index))
        return [to_sample(row) for row in await self._database.rows(query)]

    async def progress(self, ids: Sequence[str]) -> Mapping[str, Progress]:
        of_these = samples.c.evaluation_id.in_(ids)
        drawn = (
            select(samples.c.evaluation_id, func.count().label("drawn"))
            .where(of_these)
            .group_by(samples.c.evaluation_id, samples.c.problem_id)
            .subquery()
        )
        done = (
            select(drawn.c.evaluation_id, func.count().label("problems"))
            .join(evaluations, evaluations.c.id == drawn.c.evaluation_id)
            .where(drawn.c.drawn >= evaluations.c.samples_per_problem)
            .group_by(drawn.c.evaluation_id)
        )
        counted = (
            select(
                samples.c.evaluation_id,
                samples.c.verdict,
                func.count().label("samples"),
                func.sum(case((samples.c.forgeable, 1), else_=0)).label("forgeable"),
            )
            .where(of_these)
            .group_by(samples.c.evaluation_id, samples.c.verdict)
        )
        problems = {row.evaluation_id: row.problems for row in await self._database.rows(done)}
        verdicts: dict[str, dict[str, int]] = {id: {} for id in ids}
        forgeable: dict[str, int] = {}
        for row in await self._database.rows(counted):
            verdicts[row.evaluation_id][row.verdict] = row.samples
            if row.verdict == PASSED:
                forgeable[row.evaluation_id] = row.forgeable
        return {id: Progress(problems.get(id, 0), verdicts[id], forgeable.get(id, 0)) for id in ids}

    async def tallies(self, id: str) -> Mapping[str, Tally]:
        passed = func.sum(case((samples.c.verdict == PASSED, 1), else_=0)).label("passed")
        query = (
            select(samples.c.problem_id, func.count().label("samples"), passed)
            .where(samples.c.evaluation_id == id)
            .group_by(samples.c.problem_id)
        )
        return {row.problem_id: Tally(row.samples, row.passed) for row in await self._database.rows(query)}
