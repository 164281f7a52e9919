"""EvaluationStore on SQLite and PostgreSQL."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, bindparam, delete, func, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from eval_service.adapters.measurements import keep_measurement, measurements_of
from eval_service.adapters.rows import (
    evaluation_row,
    facts_row,
    failure_of,
    judgement_row,
    sample_row,
    to_evaluation,
    to_facts,
    to_sample,
)
from eval_service.adapters.tables import evaluations, problems, samples, sound_problems
from eval_service.domain.evaluation import Evaluation, State
from eval_service.domain.measurement import Measurement
from eval_service.domain.parallel import parts
from eval_service.domain.ports import EvaluationFilter, SampleFilter, Sound
from eval_service.domain.sample import ProblemKey, Sample, SampleKey
from eval_service.domain.score import Count, EpisodeMeans, Facts
from ratchet_kit.errors import NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.projects import is_seen
from ratchet_kit.sql import Database, insert_all_if_absent
from ratchet_kit.text import storable

_IN_A_QUERY = 500
"""Values that go together."""
_READ = (
    *(column for column in samples.c if column.name != "record"),
    samples.c.record.is_not(None).label("recorded"),
)
"""All of a sample but its record."""


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

    async def page(
        self, limit: int, after: str | None, only: EvaluationFilter = EvaluationFilter()
    ) -> Sequence[Evaluation]:
        query = select(evaluations).order_by(evaluations.c.id.desc())
        if after is not None:
            query = query.where(evaluations.c.id < after)
        if only.model:
            query = query.where(evaluations.c.model_name == only.model)
        if only.problems:
            query = query.where(evaluations.c.set_names.contains(f"|{only.problems}|", autoescape=True))
        if only.state is not None:
            query = query.where(evaluations.c.state == only.state.value)
        if only.after_time is not None:
            query = query.where(evaluations.c.create_time >= only.after_time)
        if only.name:
            named = evaluations.c.spec["display_name"].as_string()
            query = query.where(named.icontains(only.name, autoescape=True))
        return await self._database.readable(query, to_evaluation, limit)

    async def under_way(self) -> Sequence[Evaluation]:
        under_way = evaluations.c.state.in_([str(state) for state in State if not state.ended])
        return await self._database.readable(
            select(evaluations).where(under_way).order_by(evaluations.c.id), to_evaluation
        )

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
            # Who adds something to it meanwhile waits, and finds it gone.
            row = (
                await connection.execute(select(evaluations).where(evaluations.c.id == id).with_for_update())
            ).first()
            if row is not None:
                await keep_measurement(connection, to_evaluation(row))
            for table in (samples, problems):
                await connection.execute(delete(table).where(table.c.evaluation_id == id))
            await connection.execute(delete(evaluations).where(evaluations.c.id == id))

    async def forget_texts(self, before: datetime) -> int:
        old = (evaluations.c.end_time < before, evaluations.c.has_texts)
        ids = [row.id for row in await self._database.rows(select(evaluations.c.id).where(*old))]
        for id in ids:
            async with self._database.writing() as connection:
                # Without its request, no other evaluation takes the text over from here.
                await connection.execute(
                    update(samples)
                    .where(samples.c.evaluation_id == id)
                    .values(completion="", detail="", failed_tests=[], request=None, record=None)
                )
                await connection.execute(update(evaluations).where(evaluations.c.id == id).values(has_texts=False))
        return len(ids)

    # Problems

    async def add_problems(self, id: str, facts: Sequence[Facts]) -> None:
        async with self._database.writing() as connection:
            await insert_all_if_absent(connection, problems, [facts_row(id, one) for one in facts])

    async def exclude(self, id: str, reasons: Mapping[ProblemKey, str]) -> None:
        if not reasons:
            return
        statement = (
            update(problems)
            .where(problems.c.evaluation_id == id)
            .where(problems.c.benchmark == bindparam("of_benchmark"))
            .where(problems.c.problem_id == bindparam("of_problem"))
            .values(excluded=bindparam("reason"))
        )
        rows = [
            {"of_benchmark": key.benchmark, "of_problem": key.problem_id, "reason": storable(reason)}
            for key, reason in reasons.items()
        ]
        async with self._database.writing() as connection:
            await connection.execute(statement, rows)

    async def problems(self, ids: Sequence[str]) -> Mapping[str, Sequence[Facts]]:
        found: dict[str, list[Facts]] = {id: [] for id in ids}
        for row in await self._database.rows(select(problems).where(problems.c.evaluation_id.in_(ids))):
            found[row.evaluation_id].append(to_facts(row))
        return found

    async def sound(self, digests: Sequence[str]) -> Mapping[str, Sound]:
        found: dict[str, Sound] = {}
        for some in parts(digests, _IN_A_QUERY):
            query = select(sound_problems).where(sound_problems.c.digest.in_(some))
            found |= {
                row.digest: Sound(tuple(row.shared), timedelta(seconds=row.cpu_seconds))
                for row in await self._database.rows(query)
            }
        return found

    async def add_sound(self, found: Mapping[str, Sound]) -> None:
        rows = [
            {"digest": digest, "shared": list(one.shared), "cpu_seconds": one.cpu_time.total_seconds()}
            for digest, one in found.items()
        ]
        async with self._database.writing() as connection:
            await insert_all_if_absent(connection, sound_problems, rows)

    async def measurements(self, id: str) -> Sequence[Measurement]:
        return await measurements_of(self._database, id)

    # Samples

    async def add_samples(self, id: str, added: Sequence[Sample]) -> None:
        async with self._database.writing() as connection:
            await insert_all_if_absent(connection, samples, [sample_row(id, sample) for sample in added])

    async def judge_samples(self, id: str, judged: Sequence[Sample]) -> None:
        async with self._database.writing() as connection:
            await _judge(connection, id, judged)

    async def sample_keys(self, id: str) -> frozenset[SampleKey]:
        rows = await self._database.rows(
            select(samples.c.benchmark, samples.c.problem_id, samples.c.index.label("number")).where(
                samples.c.evaluation_id == id
            )
        )
        return frozenset(SampleKey(row.benchmark, row.problem_id, row.number) for row in rows)

    async def unjudged(self, id: str, limit: int, after: SampleKey | None) -> Sequence[Sample]:
        query = _by_key(id, after).where(samples.c.verdict == "").limit(limit)
        return [to_sample(row) for row in await self._database.rows(query)]

    async def sample_page(
        self, id: str, limit: int, after: SampleKey | None, only: SampleFilter = SampleFilter()
    ) -> Sequence[Sample]:
        query = _by_key(id, after).where(samples.c.verdict != "")
        for column, value in (
            (samples.c.benchmark, only.benchmark),
            (samples.c.problem_id, only.problem_id),
            (samples.c.verdict, only.verdict),
            (samples.c.failure, only.failure),
        ):
            if value:
                query = query.where(column == value)
        return await self._database.readable(query, to_sample, limit)

    async def sample(self, id: str, key: SampleKey) -> Sample:
        query = select(*_READ, samples.c.record).where(samples.c.evaluation_id == id, samples.c.verdict != "")
        place = (samples.c.benchmark == key.benchmark, samples.c.problem_id == key.problem_id)
        row = await self._database.first(query.where(*place, samples.c.index == key.index))
        if row is None:
            raise NotFound(f"evaluation {id!r} has no sample {key.problem_id}:{key.index} of {key.benchmark!r}")
        return replace(to_sample(row), record=row.record or b"")

    async def means(self, id: str) -> EpisodeMeans | None:
        names = ("turns", "tool_errors", "tokens", "generation_seconds")
        columns = [func.avg(samples.c[name]).label(name) for name in names]
        row = await self._database.first(select(*columns).where(samples.c.evaluation_id == id))
        if row is None or row.turns is None:
            return None
        return EpisodeMeans(*(float(row._mapping[name] or 0.0) for name in names))

    async def drawn(self, requests: Sequence[str]) -> Mapping[str, Sample]:
        found: dict[str, Sample] = {}
        for some in parts(requests, _IN_A_QUERY):
            query = select(*_READ).where(samples.c.request.in_(some))
            rows = await self._database.rows(query)
            found |= {row.request: to_sample(row) for row in rows if is_seen(row.evaluation_id)}
        return found

    async def counts(self, ids: Sequence[str]) -> Mapping[str, Sequence[Count]]:
        alike = [samples.c[name] for name in ("evaluation_id", "benchmark", "problem_id", "verdict", "failure")]
        alike.append(samples.c.forgeable)
        query = select(*alike, func.count().label("number")).where(samples.c.evaluation_id.in_(ids)).group_by(*alike)
        found: dict[str, list[Count]] = {id: [] for id in ids}
        for row in await self._database.rows(query):
            key, failure = ProblemKey(row.benchmark, row.problem_id), failure_of(row.failure)
            found[row.evaluation_id].append(Count(key, row.verdict, failure, row.forgeable, row.number))
        return found

    async def tokens(self, ids: Sequence[str]) -> Mapping[str, int]:
        of, tokens = samples.c.evaluation_id, func.sum(samples.c.tokens).label("tokens")
        rows = await self._database.rows(select(of, tokens).where(of.in_(ids)).group_by(of))
        return dict.fromkeys(ids, 0) | {row.evaluation_id: int(row.tokens) for row in rows}


def _by_key(id: str, after: SampleKey | None) -> Select[Any]:
    columns = (samples.c.benchmark, samples.c.problem_id, samples.c.index)
    query = select(*_READ).where(samples.c.evaluation_id == id).order_by(*columns)
    if after is not None:
        query = query.where(tuple_(*columns) > (after.benchmark, after.problem_id, after.index))
    return query


async def _judge(connection: AsyncConnection, id: str, judged: Sequence[Sample]) -> None:
    if not judged:
        return
    statement = (
        update(samples)
        .where(samples.c.evaluation_id == id)
        .where(samples.c.benchmark == bindparam("of_benchmark"))
        .where(samples.c.problem_id == bindparam("of_problem"))
        .where(samples.c.index == bindparam("of_index"))
        .where(samples.c.verdict == "")
        .values({name: bindparam(f"new_{name}") for name in judgement_row(judged[0])})
    )
    await connection.execute(statement, list(_judgements(judged)))


def _judgements(judged: Sequence[Sample]) -> Iterator[dict[str, Any]]:
    for sample in judged:
        key = sample.key
        new = {f"new_{name}": value for name, value in judgement_row(sample).items()}
        yield {"of_benchmark": key.benchmark, "of_problem": key.problem_id, "of_index": key.index, **new}
