"""The request log summed up by the units of experiments: the database adds, so that no row per request is read."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Float, Row, Select, Subquery, and_, case, cast, func, or_, select, true
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from gateway_service.adapters.sql.tables import completions, experiments
from gateway_service.domain.statistics.moments import Before, Moments, Products
from gateway_service.domain.traffic.measure import MILLION, Measure, Quantity
from gateway_service.domain.traffic.record import Arm, Unit
from gateway_service.domain.traffic.sample import (
    MAX_SAMPLE_LATENCIES,
    ArmSample,
    ArmTraffic,
    Attempt,
    Period,
    UnitCount,
    UnitLatency,
)
from ratchet_kit.ids import TIME_LETTERS
from ratchet_kit.names import VersionRef
from ratchet_kit.sql import Database

_c = completions.c
_answered = and_(_c.error == "", _c.has_left.is_(False))
_scored = _c.score.is_not(None)
_VALUES: Mapping[Measure, tuple[ColumnElement[Any], ColumnElement[bool]]] = {
    Measure.QUALITY: (_c.score, _scored),
    Measure.FEEDBACK: (_c.score, and_(_scored, _c.problem_id == "")),
    Measure.TESTS: (_c.score, and_(_scored, _c.problem_id != "")),
    Measure.ERROR_RATE: (case((_c.error != "", 1.0), else_=0.0), _c.has_left.is_(False)),
    Measure.LEFT: (case((_c.has_left, 1.0), else_=0.0), true()),
    Measure.LATENCY: (_c.latency_s, _answered),
    Measure.LATENCY_P95: (_c.latency_s, _answered),
    Measure.TOKENS: (cast(_c.completion_tokens, Float), _answered),
}
"""The value of a record, and which records have one; `_value` has the others."""


async def counts(database: Database, experiment_id: str, until: datetime | None) -> Mapping[str, UnitCount]:
    query = (
        select(_c.variant, func.count(_c.unit.distinct()).label("units"), func.count().label("requests"))
        .where(_of_experiment(experiment_id, until))
        .group_by(_c.variant)
    )
    return {row.variant: UnitCount(row.units, row.requests) for row in await database.rows(query)}


async def reached(
    database: Database, experiment_id: str, quantity: Quantity | None, units: int
) -> Mapping[str, datetime]:
    has_one = true() if quantity is None else _value(quantity)[1]
    first = (
        select(_c.variant, _c.unit, func.min(_c.start_time).label("time"))
        .where(_of_experiment(experiment_id, None), has_one)
        .group_by(_c.variant, _c.unit)
        .subquery()
        .c
    )
    place = func.row_number().over(partition_by=first.variant, order_by=first.time)
    numbered = select(first.variant, first.time, place.label("place")).subquery().c
    query = select(numbered.variant, numbered.time).where(numbered.place == units)
    return {row.variant: row.time for row in await database.rows(query)}


async def moments(
    database: Database, experiment_id: str, quantity: Quantity, past: Period, until: datetime | None
) -> Mapping[str, Moments]:
    value, has_one = _value(quantity)
    of_unit = _by_variant_and_unit(experiment_id, quantity, until)
    model = select(experiments.c.model).where(experiments.c.id == experiment_id).scalar_subquery()
    before = (
        select(_c.unit, cast(func.avg(value), Float).label("c"))
        .where(_c.model == model, _of_no_experiment(past), has_one, _c.unit != "")
        .group_by(_c.unit)
        .subquery()
    )
    u, b = of_unit.c, before.c
    known = b.c.is_not(None)
    query = (
        select(
            u.variant,
            *_sums(u),
            func.count(b.c).label("known"),
            _sum(case((known, u.x))).label("kx"),
            _sum(case((known, u.y))).label("ky"),
            _sum(b.c).label("c"),
            _sum(b.c * b.c).label("cc"),
            _sum(u.x * b.c).label("xc"),
            _sum(u.y * b.c).label("yc"),
        )
        .select_from(of_unit.outerjoin(before, b.unit == u.unit))
        .group_by(u.variant)
    )
    return {
        row.variant: _moments(row, Before(row.known, row.kx, row.ky, row.c, row.cc, row.xc, row.yc))
        for row in await database.rows(query)
    }


async def products(
    database: Database, experiment_id: str, quantity: Quantity, first: str, until: datetime | None
) -> Mapping[str, Products]:
    of_variant, of_first = (_by_variant_and_unit(experiment_id, quantity, until) for _ in range(2))
    one, other = of_variant.c, of_first.c
    both = and_(one.unit == other.unit, other.variant == first, one.variant != first)
    query = (
        select(
            one.variant,
            func.count().label("units"),
            _sum(one.x * other.x).label("xx"),
            _sum(one.x * other.y).label("xy"),
            _sum(one.y * other.x).label("yx"),
            _sum(one.y * other.y).label("yy"),
        )
        .select_from(of_variant.join(of_first, both))
        .group_by(one.variant)
    )
    return {row.variant: Products(row.units, row.xx, row.xy, row.yx, row.yy) for row in await database.rows(query)}


async def latencies(
    database: Database, experiment_id: str, variant: str, until: datetime | None, limit: int
) -> Sequence[UnitLatency]:
    query = (
        select(_c.unit, _c.latency_s)
        .where(_of_experiment(experiment_id, until), _c.variant == variant, _answered)
        .order_by(func.substr(_c.id, len("cmpl_") + TIME_LETTERS + 1), _c.id)  # the first by chance (bottom-k)
        .limit(limit)
    )
    return [UnitLatency(row.unit, row.latency_s) for row in await database.rows(query)]


async def recent(database: Database, model: str, quantity: Quantity, unit: Unit, period: Period) -> Moments:
    if unit not in (Unit.USER, Unit.REQUEST):
        return Moments()
    value, has_one = _value(quantity)
    named = _c.unit != "" if unit is Unit.USER else true()
    of_unit = (
        select(*_totals(value))
        .where(_c.model == model, _of_no_experiment(period), has_one, named)
        .group_by(_c.unit if unit is Unit.USER else _c.id)
        .subquery()
    )
    row = await database.first(select(*_sums(of_unit.c)))
    assert row is not None, "a sum has a row"
    return _moments(row, Before())


async def version(database: Database, ref: VersionRef, period: Period) -> ArmSample:
    of_version = and_(_c.model == ref.model, _c.version == ref.number, _of_no_experiment(period))

    async def sums(value: ColumnElement[Any], has_one: ColumnElement[bool]) -> Moments:
        unit = case((_c.unit == "", _c.id), else_=_c.unit)
        of_unit = select(*_totals(value)).where(of_version, has_one).group_by(unit).subquery()
        row = await database.first(select(*_sums(of_unit.c)))
        assert row is not None, "a sum has a row"
        return _moments(row, Before())

    return ArmSample(
        await sums(*_VALUES[Measure.ERROR_RATE]),
        await sums(*_VALUES[Measure.QUALITY]),
        tuple(latency(row) for row in await database.rows(latest(of_version, _c.start_time))),
        await sums(case((_c.has_left, 1.0), else_=0.0), true()),
    )


async def attempts(database: Database, ref: VersionRef, periods: Sequence[Period]) -> Sequence[Attempt]:
    of_version = and_(_c.model == ref.model, _c.version == ref.number)
    in_one = or_(*(and_(of_version, _of_no_experiment(period)) for period in periods))
    columns = (_c.id, _c.unit, _c.error, _c.has_left, _c.score, _c.latency_s)
    return [
        Attempt(row.unit or row.id, bool(row.error), row.has_left, row.score, row.latency_s)
        for row in await database.rows(select(*columns).where(in_one))
    ]


async def requests(database: Database, ref: VersionRef, period: Period) -> int:
    in_period = and_(_c.start_time >= period.start_time, _c.start_time < period.end_time)
    of_version = and_(_c.model == ref.model, _c.version == ref.number, in_period)  # the index has all of it
    row = await database.first(select(func.count().label("number")).select_from(completions).where(of_version))
    assert row is not None, "a count has a row"
    return int(row.number)


async def arms(database: Database, ref: VersionRef, period: Period) -> Sequence[ArmTraffic]:
    """By the index of versions and times. A quantile is a rank among all answers, as `sample.quantile` has it."""
    wanted = and_(
        _c.model == ref.model,
        _c.version == ref.number,
        _c.start_time >= period.start_time,
        _c.start_time < period.end_time,
        _c.arm != Arm.REPLAY,
    )
    counts = select(
        _c.arm,
        func.count().label("requests"),
        func.sum(case((_c.error != "", 1), else_=0)).label("errors"),
        func.sum(case((_c.has_left, 1), else_=0)).label("has_left"),
        func.sum(_c.prompt_tokens).label("prompt_tokens"),
        func.sum(_c.completion_tokens).label("completion_tokens"),
        func.count(_c.score).label("scored"),
        func.coalesce(func.avg(_c.score), 0.0).label("mean_score"),
    )
    place = func.row_number().over(partition_by=_c.arm, order_by=_c.latency_s).label("place")
    number = func.count().over(partition_by=_c.arm).label("number")
    ranked = select(_c.arm, _c.latency_s, place, number).where(wanted, _answered).subquery().c
    is_quantile = [ranked.place == (ranked.number * percent + 99) // 100 for percent in (50, 95)]
    quantiles: dict[str, list[float]] = {}
    for row in await database.rows(
        select(ranked.arm, ranked.latency_s).where(or_(*is_quantile)).order_by(ranked.place)
    ):
        quantiles.setdefault(row.arm, []).append(row.latency_s)
    return [
        ArmTraffic(
            Arm(row.arm),
            row.requests,
            row.errors,
            row.has_left,
            row.prompt_tokens,
            row.completion_tokens,
            row.scored,
            row.mean_score,
            *(quantiles[row.arm][place] if row.arm in quantiles else 0.0 for place in (0, -1)),
        )
        for row in await database.rows(counts.where(wanted).group_by(_c.arm).order_by(_c.arm))
    ]


async def latencies_of(database: Database, ref: VersionRef) -> Sequence[UnitLatency]:
    of_version = and_(_c.model == ref.model, _c.version == ref.number, _c.experiment_id == "", _c.arm != Arm.FALLBACK)
    return [latency(row) for row in await database.rows(latest(of_version, _c.start_time))]


def latest(where: ColumnElement[bool], order: ColumnElement[Any]) -> Select[Any]:
    """The latest answers of a version; who left has none."""
    answers = select(_c.id, _c.unit, _c.latency_s).where(where, _answered)
    return answers.order_by(order.desc()).limit(MAX_SAMPLE_LATENCIES)


def latency(row: Row[Any]) -> UnitLatency:
    return UnitLatency(row.unit or row.id, row.latency_s)


def _value(quantity: Quantity) -> tuple[ColumnElement[Any], ColumnElement[bool]]:
    if quantity.measure is Measure.NAMED:
        named = _c.metrics[quantity.name].as_float()
        return named, named.is_not(None)
    if quantity.measure is Measure.COST:
        assert quantity.price is not None, "the experiment was checked"
        price = quantity.price
        of_prompt, of_completion = cast(_c.prompt_tokens, Float), cast(_c.completion_tokens, Float)
        return (of_prompt * price.prompt + of_completion * price.completion) / MILLION, _answered
    return _VALUES[quantity.measure]


def _of_experiment(experiment_id: str, until: datetime | None) -> ColumnElement[bool]:
    own = _c.experiment_id == experiment_id
    return own if until is None else and_(own, _c.start_time <= until)


def _of_no_experiment(period: Period) -> ColumnElement[bool]:
    return and_(
        _c.start_time >= period.start_time,
        _c.start_time < period.end_time,
        _c.experiment_id == "",
        _c.arm != Arm.FALLBACK,
    )


def _by_variant_and_unit(experiment_id: str, quantity: Quantity, until: datetime | None) -> Subquery:
    value, has_one = _value(quantity)
    return (
        select(_c.variant, _c.unit, *_totals(value))
        .where(_of_experiment(experiment_id, until), has_one)
        .group_by(_c.variant, _c.unit)
        .subquery()
    )


def _totals(value: ColumnElement[Any]) -> Sequence[ColumnElement[Any]]:
    return cast(func.count(), Float).label("x"), _sum(value).label("y")


def _sums(u: ReadOnlyColumnCollection[str, Any]) -> Sequence[ColumnElement[Any]]:
    """Of a subquery with a row per unit, as `_totals` has it."""
    return (
        func.count().label("units"),
        _sum(u.x).label("x"),
        _sum(u.y).label("y"),
        _sum(u.x * u.x).label("xx"),
        _sum(u.y * u.y).label("yy"),
        _sum(u.x * u.y).label("xy"),
    )


def _sum(value: ColumnElement[Any]) -> ColumnElement[Any]:
    return cast(func.coalesce(func.sum(value), 0.0), Float)


def _moments(row: Row[Any], before: Before) -> Moments:
    return Moments(row.units, row.x, row.y, row.xx, row.yy, row.xy, before)
