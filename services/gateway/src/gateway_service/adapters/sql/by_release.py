"""The sums that a release is judged by: they grow with each record and score, once."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Float, Row, and_, case, cast, func, select, union_all
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway_service.adapters.sql import by_unit
from gateway_service.adapters.sql.tables import completions, release_sums
from gateway_service.domain.statistics.moments import Moments
from gateway_service.domain.traffic.record import Arm, CompletionRecord
from gateway_service.domain.traffic.sample import MAX_SAMPLE_LATENCIES, ArmSample, UnitLatency, same_times
from ratchet_kit.sql import Database

COUNTS = ("requests", "errors", "has_left", "scored", "score", "score_squares")


@dataclass(slots=True)  # mutable: it grows with each record
class _Growth:
    """By how much a row grows."""

    requests: int = 0
    errors: int = 0
    has_left: int = 0
    scored: int = 0
    score: float = 0.0
    score_squares: float = 0.0


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


async def sample(database: Database, release_id: str, arm: Arm, from_stage: int) -> ArmSample:
    s, c = release_sums.c, completions.c
    of_unit = (
        select(s.unit, *(cast(func.sum(s[name]), Float).label(name) for name in COUNTS))
        .where(s.release_id == release_id, s.arm == arm, s.stage >= from_stage)
        .group_by(s.unit)
        .subquery()
        .c
    )
    named = of_unit.unit != ""
    row = await database.first(
        select(
            *_sums("failures", named, of_unit.requests, of_unit.errors, of_unit.errors),
            *_sums("scores", named, of_unit.scored, of_unit.score, of_unit.score_squares),
            _total(of_unit.has_left).label("has_left"),
        )
    )
    assert row is not None, "a sum has a row"
    if arm is Arm.BASELINE:
        latencies = await _at_same_times(database, release_id, from_stage)
    else:
        latencies = await by_unit.latest(database, and_(_of(release_id, arm), c.stage >= from_stage), c.id)
    return ArmSample(_moments(row, "failures"), _moments(row, "scores"), latencies, int(row.has_left))


async def _at_same_times(database: Database, release_id: str, from_stage: int) -> tuple[UnitLatency, ...]:
    """Ids and stages grow with time, so no look goes further back than its limit."""
    c, answered = completions.c, completions.c.error == ""
    own, other = and_(_of(release_id, Arm.BASELINE), answered), and_(_of(release_id, Arm.CANDIDATE), answered)
    last = await database.first(select(c.id, c.stage).where(own).order_by(c.id.desc()).limit(1))
    if last is None or last.stage < from_stage:
        return ()
    before = select(c.id).where(other, c.stage >= from_stage, c.id < last.id).order_by(c.id.desc())
    times = same_times([row.id for row in await database.rows(before.limit(MAX_SAMPLE_LATENCIES))], last.id)
    part = MAX_SAMPLE_LATENCIES // len(times)
    wanted = select(c.id, c.stage, c.unit, c.latency_s).where(own).order_by(c.id.desc()).limit(part)
    looks = union_all(*(select(wanted.where(c.id <= time).subquery()) for time in times))
    found = {row.id: row for row in await database.rows(looks) if row.stage >= from_stage}
    return tuple(UnitLatency(row.unit or row.id, row.latency_s) for row in found.values())


def _of(release_id: str, arm: Arm) -> ColumnElement[bool]:
    return and_(completions.c.release_id == release_id, completions.c.arm == arm)


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
    named: ColumnElement[bool],
    x: ColumnElement[float],
    y: ColumnElement[float],
    squares: ColumnElement[float],
) -> Sequence[ColumnElement[Any]]:
    """As Moments has them, of a row per user and one of single requests, whose squares of y are kept beside it."""
    values = {
        "units": case((named, case((x > 0, 1.0), else_=0.0)), else_=x),
        "x": x,
        "y": y,
        "xx": case((named, x * x), else_=x),
        "yy": case((named, y * y), else_=squares),
        "xy": case((named, x * y), else_=y),
    }
    return [_total(value).label(f"{name}_{moment}") for moment, value in values.items()]


def _total(value: ColumnElement[float]) -> ColumnElement[float]:
    return cast(func.coalesce(func.sum(value), 0.0), Float)


def _moments(row: Row[Any], name: str) -> Moments:
    units, *sums = (getattr(row, f"{name}_{moment}") for moment in ("units", "x", "y", "xx", "yy", "xy"))
    return Moments(int(units), *sums)
