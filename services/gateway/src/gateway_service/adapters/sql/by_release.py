"""The sums that a release is judged by: they grow with each record and score, once."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Float, Row, and_, case, cast, func, or_, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway_service.adapters.sql import by_unit
from gateway_service.adapters.sql.tables import completions, release_sums
from gateway_service.domain.statistics.moments import Moments, Products
from gateway_service.domain.statistics.strata import Cell, Strata
from gateway_service.domain.traffic.record import Arm, CompletionRecord
from gateway_service.domain.traffic.sample import ArmSample
from ratchet_kit.sql import Database

COUNTS = ("requests", "errors", "has_left", "scored", "score", "score_squares", "timed", "slow")


@dataclass(slots=True)  # mutable: it grows with each record
class _Growth:
    """By how much a row grows."""

    requests: int = 0
    errors: int = 0
    has_left: int = 0
    scored: int = 0
    score: float = 0.0
    score_squares: float = 0.0
    timed: int = 0
    slow: int = 0


def is_judged(record: CompletionRecord) -> bool:
    """It is of an arm of a release."""
    return bool(record.release_id) and record.arm in (Arm.BASELINE, Arm.CANDIDATE)


async def add(connection: AsyncConnection, records: Sequence[CompletionRecord]) -> None:
    """Of judged records that were stored just now."""
    growths: dict[tuple[str, str, int, str], _Growth] = {}
    for record in records:
        growth = growths.setdefault(_key(record), _Growth())
        growth.requests += not record.left
        growth.errors += bool(record.error)
        growth.has_left += record.left
        growth.timed += record.slow is not None
        growth.slow += bool(record.slow)
        if record.score is not None:
            growth.scored += 1
            growth.score += record.score
            growth.score_squares += record.score**2
    await _grow(connection, growths)


async def rescore(connection: AsyncConnection, before: CompletionRecord, score: float) -> None:
    """Of a record, as it was before it got a score."""
    if is_judged(before):
        old = before.score or 0.0
        growth = _Growth(scored=before.score is None, score=score - old, score_squares=score**2 - old**2)
        await _grow(connection, {_key(before): growth})


async def sample(database: Database, release_id: str, arm: Arm, stage: int) -> ArmSample:
    s, c = release_sums.c, completions.c
    query = select(
        *_sums("failures", s.unit, s.requests, s.errors, s.errors),
        *_sums("leaving", s.unit, s.requests + s.has_left, s.has_left, s.has_left),
        *_sums("scores", s.unit, s.scored, s.score, s.score_squares),
        *_sums("slowness", s.unit, s.timed, s.slow, s.slow),
    ).where(s.release_id == release_id, s.arm == arm, s.stage == stage)
    row = await database.first(query)
    assert row is not None, "a sum has a row"
    latest = by_unit.latest(and_(c.release_id == release_id, c.arm == arm), c.id).add_columns(c.stage)
    latencies = tuple(by_unit.latency(row) for row in await database.rows(latest) if row.stage == stage)
    failures, scores, leaving, slowness = (
        _moments(row, name) for name in ("failures", "scores", "leaving", "slowness")
    )
    return ArmSample(failures, scores, latencies, leaving, slowness)


async def scores(database: Database, release_id: str) -> Strata:
    s = release_sums.c
    scored = and_(s.release_id == release_id, s.scored > 0)
    sums = _sums("scores", s.unit, s.scored, s.score, s.score_squares)
    of_cell = select(s.arm, s.stage, *sums).where(scored).group_by(s.arm, s.stage)
    cells = {Cell(row.stage, row.arm): _moments(row, "scores") for row in await database.rows(of_cell)}

    columns = (s.arm, s.stage, s.unit, cast(s.scored, Float).label("x"), s.score.label("y"))
    one, other = (select(*columns).where(scored, s.unit != "").subquery().c for _ in range(2))
    later = or_(one.stage < other.stage, and_(one.stage == other.stage, one.arm < other.arm))
    pairs = (
        select(
            one.arm,
            one.stage,
            other.arm.label("other_arm"),
            other.stage.label("other_stage"),
            func.count().label("units"),
            _total(one.x * other.x).label("xx"),
            _total(one.x * other.y).label("xy"),
            _total(one.y * other.x).label("yx"),
            _total(one.y * other.y).label("yy"),
        )
        .where(one.unit == other.unit, later)
        .group_by(one.arm, one.stage, other.arm, other.stage)
    )
    shared = {
        (Cell(row.stage, row.arm), Cell(row.other_stage, row.other_arm)): Products(
            row.units, row.xx, row.xy, row.yx, row.yy
        )
        for row in await database.rows(pairs)
    }
    return Strata(cells, shared)


def _key(record: CompletionRecord) -> tuple[str, str, int, str]:
    return record.release_id, record.arm.value, record.stage, record.unit


async def _grow(connection: AsyncConnection, growths: dict[tuple[str, str, int, str], _Growth]) -> None:
    if not growths:
        return
    now = datetime.now(UTC)
    rows = [
        dict(zip(("release_id", "arm", "stage", "unit"), key, strict=True))
        | {name: getattr(growth, name) for name in COUNTS}
        | {"update_time": now}
        for key, growth in sorted(growths.items())  # in one order: two gateways never wait for each other's rows
    ]
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    insertion = dialect.insert(release_sums)
    grown = {name: release_sums.c[name] + insertion.excluded[name] for name in COUNTS}
    await connection.execute(
        insertion.on_conflict_do_update(
            index_elements=list(release_sums.primary_key), set_={**grown, "update_time": insertion.excluded.update_time}
        ),
        rows,
    )


def _sums(
    name: str,
    unit: ColumnElement[str],
    x: ColumnElement[Any],
    y: ColumnElement[Any],
    squares: ColumnElement[Any],
) -> Sequence[ColumnElement[Any]]:
    """As Moments has them, of a row per user and one of single requests, whose squares of y are kept beside it."""
    named, x, y = unit != "", cast(x, Float), cast(y, Float)
    values = {
        "units": case((named, case((x > 0, 1.0), else_=0.0)), else_=x),
        "x": x,
        "y": y,
        "xx": case((named, x * x), else_=x),
        "yy": case((named, y * y), else_=cast(squares, Float)),
        "xy": case((named, x * y), else_=y),
    }
    return [_total(value).label(f"{name}_{moment}") for moment, value in values.items()]


def _total(value: ColumnElement[Any]) -> ColumnElement[float]:
    return cast(func.coalesce(func.sum(value), 0.0), Float)


def _moments(row: Row[Any], name: str) -> Moments:
    units, *sums = (getattr(row, f"{name}_{moment}") for moment in ("units", "x", "y", "xx", "yy", "xy"))
    return Moments(int(units), *sums)
