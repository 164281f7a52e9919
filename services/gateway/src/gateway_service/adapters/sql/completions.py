"""CompletionLog on SQLite and PostgreSQL."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, and_, delete, func, select, update

from gateway_service.adapters.sql import by_key, by_release, by_unit
from gateway_service.adapters.sql import exchanges as kept
from gateway_service.adapters.sql import metrics as measured
from gateway_service.adapters.sql.tables import completions, experiments, feedback, release_sums
from gateway_service.domain.keys.costs import Charge
from gateway_service.domain.statistics.moments import Moments, Products
from gateway_service.domain.statistics.strata import Strata
from gateway_service.domain.traffic.measure import Quantity
from gateway_service.domain.traffic.metrics import NO_METRICS, Metrics
from gateway_service.domain.traffic.ports import NO_SCORE
from gateway_service.domain.traffic.record import Arm, CompletionRecord, ProblemRef, Unit
from gateway_service.domain.traffic.sample import ArmSample, ArmTraffic, Attempt, Period, UnitCount, UnitLatency
from ratchet_kit import sql
from ratchet_kit.errors import NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.names import VersionRef
from ratchet_kit.sql import Database, row_of, value_of
from ratchet_kit.usage import Prices

MAX_LATENCIES = 10_000
MAX_LATEST = 10_000
"""Requests that are looked at for the models that they name."""
_NO_TEXTS: dict[str, Any] = {"texts": [], "has_texts": False}


class SqlCompletionLog:
    def __init__(self, database: Database, prices: Prices | None = None) -> None:
        self._database = database
        self._prices = prices

    async def append(self, records: Sequence[CompletionRecord]) -> None:
        async with self._database.writing() as connection:
            records = await kept.sifted(connection, records)
            judged = {record.id: record for record in records if by_release.is_judged(record)}
            others = [_row(record) for record in records if record.id not in judged]
            added = await sql.insert_all_if_absent(connection, completions, others, returning=completions.c.id)
            rows = [_row(record) for record in judged.values()]
            new = await sql.insert_all_if_absent(connection, completions, rows, returning=completions.c.id)
            await by_release.add(connection, [judged[id] for id in new])
            await kept.add(connection, records)
            stored = {*added, *new}
            await by_key.add(connection, [record for record in records if record.id in stored], self._prices)

    async def answers(self, since: datetime) -> Sequence[Charge]:
        return await by_key.answers(self._database, since)

    async def get(self, completion_id: str) -> CompletionRecord:
        row = await self._database.first(select(completions).where(completions.c.id == completion_id))
        if row is None:
            raise NotFound(f"completion {completion_id} is not known")
        return _record(row)

    async def recorded(self, completion_ids: Sequence[str]) -> frozenset[str]:
        query = select(completions.c.id).where(completions.c.id.in_(completion_ids))
        return frozenset(row.id for row in await self._database.rows(query)) if completion_ids else frozenset()

    async def set_score(
        self,
        completion_id: str,
        score: float,
        problem: ProblemRef | None,
        request: Request,
        metrics: Metrics = NO_METRICS,
    ) -> float:
        values = {
            "score": score,
            "problem_set": problem.problem_set if problem else "",
            "problem_id": problem.problem_id if problem else "",
        } | _NO_TEXTS
        change = update(completions).where(completions.c.id == completion_id).values(values)
        async with self._database.writing() as connection:
            if await kept.note(connection, completion_id, request, score):
                found = select(completions).where(completions.c.id == completion_id).with_for_update()
                row = (await connection.execute(found)).one_or_none()
                if row is None:
                    raise NotFound(f"completion {completion_id} is not known")
                await connection.execute(change)
                await by_release.rescore(connection, _record(row), score)
                await kept.rescore(connection, completion_id, score, problem)
                await measured.add(connection, completion_id, metrics)
                return score
        existing = await self.find_score(request)
        return score if existing is None else existing

    async def add_metrics(self, completion_id: str, metrics: Metrics, request: Request) -> None:
        async with self._database.writing() as connection:
            is_new = await kept.note(connection, completion_id, request, NO_SCORE)
            if is_new and not await measured.add(connection, completion_id, metrics):
                raise NotFound(f"completion {completion_id} is not known")
        await self.find_score(request)

    async def find_score(self, request: Request) -> float | None:
        row = await self._database.made_by(request, select(feedback), "feedback")
        return None if row is None else row.score

    async def release_sample(self, release_id: str, arm: Arm, stage: int) -> ArmSample:
        return await by_release.sample(self._database, release_id, arm, stage)

    async def release_scores(self, release_id: str) -> Strata:
        return await by_release.scores(self._database, release_id)

    async def version_sample(self, ref: VersionRef, period: Period) -> ArmSample:
        return await by_unit.version(self._database, ref, period)

    async def version_attempts(self, ref: VersionRef, periods: Sequence[Period]) -> Sequence[Attempt]:
        return await by_unit.attempts(self._database, ref, periods)

    async def version_requests(self, ref: VersionRef, period: Period) -> int:
        return await by_unit.requests(self._database, ref, period)

    async def version_arms(self, ref: VersionRef, period: Period) -> Sequence[ArmTraffic]:
        return await by_unit.arms(self._database, ref, period)

    async def latest_latencies(self, ref: VersionRef) -> Sequence[UnitLatency]:
        return await by_unit.latencies_of(self._database, ref)

    async def experiment_units(self, experiment_id: str, until: datetime | None = None) -> Mapping[str, UnitCount]:
        return await by_unit.counts(self._database, experiment_id, until)

    async def experiment_reached(
        self, experiment_id: str, quantity: Quantity | None, units: int
    ) -> Mapping[str, datetime]:
        return await by_unit.reached(self._database, experiment_id, quantity, units)

    async def experiment_moments(
        self, experiment_id: str, quantity: Quantity, past: Period, until: datetime | None = None
    ) -> Mapping[str, Moments]:
        return await by_unit.moments(self._database, experiment_id, quantity, past, until)

    async def experiment_products(
        self, experiment_id: str, quantity: Quantity, first: str, until: datetime | None = None
    ) -> Mapping[str, Products]:
        return await by_unit.products(self._database, experiment_id, quantity, first, until)

    async def experiment_latencies(
        self, experiment_id: str, variant: str, until: datetime | None = None
    ) -> Sequence[UnitLatency]:
        return await by_unit.latencies(self._database, experiment_id, variant, until, MAX_LATENCIES)

    async def recent_moments(self, model: str, quantity: Quantity, unit: Unit, period: Period) -> Moments:
        return await by_unit.recent(self._database, model, quantity, unit, period)

    async def busy_models(self, since: datetime) -> Sequence[str]:
        c = completions.c
        latest = select(c.model, c.arm).where(c.start_time >= since).order_by(c.start_time.desc()).limit(MAX_LATEST)
        found = latest.subquery().c
        query = select(found.model).where(found.arm != Arm.REPLAY).distinct().order_by(found.model)
        return [row.model for row in await self._database.rows(query)]

    async def scored(self, model: str, since: datetime | None) -> int:
        c = completions.c
        of_model = and_(c.model == model, c.score.is_not(None), c.arm != Arm.REPLAY)
        wanted = of_model if since is None else and_(of_model, c.start_time >= since)
        row = await self._database.first(select(func.count().label("number")).select_from(completions).where(wanted))
        assert row is not None, "a count has a row"
        return int(row.number)

    async def forget_texts(self, before: datetime) -> int:
        old = and_(completions.c.has_texts, completions.c.start_time < before)
        async with self._database.writing() as connection:
            return (await connection.execute(update(completions).where(old).values(_NO_TEXTS))).rowcount

    async def forget_records(self, before: datetime) -> int:
        c = completions.c
        async with self._database.writing() as connection:
            under_way = select(experiments.c.id).where(experiments.c.active)
            old = and_(c.start_time < before, c.experiment_id.not_in(under_way))
            count = (await connection.execute(delete(completions).where(old))).rowcount
            await connection.execute(delete(release_sums).where(release_sums.c.update_time < before))
            await connection.execute(delete(feedback).where(feedback.c.create_time < before))
            return count


def _row(record: CompletionRecord) -> dict[str, Any]:
    return row_of(
        record,
        completions,
        model=record.version.model,
        version=record.version.number,
        latency_s=record.latency.total_seconds(),
        has_texts=bool(record.texts),
        problem_set=record.problem.problem_set if record.problem else "",
        problem_id=record.problem.problem_id if record.problem else "",
        metrics=dict(record.metrics),
        has_left=record.left,
        user_unit=record.user,
        session_unit=record.session,
    )


def _record(row: Row[Any]) -> CompletionRecord:
    return value_of(
        CompletionRecord,
        row,
        version=VersionRef(row.model, row.version),
        arm=Arm(row.arm),
        latency=timedelta(seconds=row.latency_s),
        texts=tuple(row.texts),
        problem=ProblemRef(row.problem_set, row.problem_id) if row.problem_id else None,
        left=row.has_left,
        user=row.user_unit,
        session=row.session_unit,
    )
