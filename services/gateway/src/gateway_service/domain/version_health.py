"""How a version is doing: its traffic by day and arm, and whether it is worse than before."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gateway_service.domain import drift
from gateway_service.domain.keys.costs import Account
from gateway_service.domain.ports import ModelRegistry
from gateway_service.domain.traffic.ports import CompletionLog
from gateway_service.domain.traffic.sample import ArmTraffic, Attempt, Period
from ratchet_kit import metrics
from ratchet_kit.errors import NotFound
from ratchet_kit.faults import Faults
from ratchet_kit.logs import get_logger
from ratchet_kit.names import VersionRef
from ratchet_kit.times import Clock
from ratchet_kit.work import every

log = get_logger(__name__)
_worse = metrics.gauge(
    "gateway_drift", "1 while a champion's traffic is worse than before, by a bound", ("model", "version", "bound")
)

DAY = timedelta(days=1)
DEFAULT_DAYS = 7
MAX_DAYS = 30
LOOKED_AT = 2
"""Days that are looked at for drift: today, and the one before, so that a notice stays for a day."""
LOOK_EVERY = timedelta(minutes=10)
"""At the champions of the models that were asked within a day."""
DAYS_BEFORE, REFERENCE_DAYS = 7, 28
"""A day is held against the latest week of days with requests, within four weeks."""
ENOUGH = 30_000
"""Requests that are read of these days. So the cost of a look does not grow with the requests."""
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class TrafficDay:
    """A day, in UTC, from its midnight to the next, of one arm."""

    start_time: datetime
    traffic: ArmTraffic


@dataclass(frozen=True, slots=True)
class DriftNotice:
    start_time: datetime
    """Midnight of the day."""
    against: VersionRef
    """The version itself, in the days before, or the champion before it."""
    days: int
    """Days of `against` with traffic."""
    drift: drift.Drift

    @property
    def sentence(self) -> str:
        days = f"{self.days} day{'' if self.days == 1 else 's'}"
        return f"{self.start_time:%Y-%m-%d}: {self.drift.words}; before: {days} of {self.against}"


@dataclass(frozen=True, slots=True)
class Health:
    days: Sequence[TrafficDay]
    """The oldest first; days without traffic are left out."""
    notices: Sequence[DriftNotice]
    answers: Account
    """Their number, tokens and cost in these days."""


class VersionHealth:
    def __init__(self, log: CompletionLog, registry: ModelRegistry, clock: Clock) -> None:
        self._log = log
        self._registry = registry
        self._clock = clock
        self._said: set[tuple[str, str, str]] = set()
        """Labels of drift at the last look."""

    async def run(self, stop: asyncio.Event) -> None:
        await every(LOOK_EVERY, stop, self.look, name="look for drift")

    async def look(self) -> None:
        """Says in the log and the metrics which champions are worse than before. Raises Unavailable."""
        found: dict[tuple[str, str, str], str] = {}
        for name in await self._log.busy_models(self._clock.now() - DAY):
            with suppress(NotFound):
                champion = (await self._registry.model(name)).champion
                for notice in await self._drift(champion) if champion else ():
                    found[name, str(champion and champion.number), notice.drift.bound] = notice.sentence
        for labels in found.keys() - self._said:
            log.warning("version.drift", model=labels[0], version=labels[1], reason=found[labels])
        for labels in found.keys() | self._said:
            _worse.labels(*labels).set(labels in found)
        self._said = set(found)

    async def get(self, ref: VersionRef, days: int = 0) -> Health:
        """`days`: today and those before it; 0: DEFAULT_DAYS. Raises InvalidArgument for more than MAX_DAYS, NotFound,
        Unavailable."""
        faults = Faults()
        faults.bounds("days", days, at_least=0, at_most=MAX_DAYS)
        faults.raise_if_any()
        await self._registry.version(ref)
        today = self._today()
        shown = [today - DAY * back for back in reversed(range(days or DEFAULT_DAYS))]
        found = [TrafficDay(day, arm) for day in shown for arm in await self._log.version_arms(ref, _whole(day))]
        charges = [one for one in await self._log.answers(shown[0]) if one.version == str(ref)]
        return Health(found, await self._drift(ref), Account.of(str(ref), charges))

    async def _drift(self, ref: VersionRef) -> Sequence[DriftNotice]:
        model = await self._registry.model(ref.model)
        others = [model.champion_before] if model.champion == ref and model.champion_before else []
        return [
            notice
            for back in reversed(range(LOOKED_AT))
            for against in (ref, *others)
            async for notice in self._notices(ref, self._today() - DAY * back, against)
        ]

    async def _notices(self, ref: VersionRef, day: datetime, against: VersionRef) -> AsyncIterator[DriftNotice]:
        """The day so far against the same hours of days before. Where these have more requests than ENOUGH, the first
        minutes of each hour stand for it, on all days alike."""
        length = min(self._clock.now() - day, DAY)
        counts: dict[datetime, int] = {}
        for back in range(1, REFERENCE_DAYS + 1):
            other = day - DAY * back
            if count := await self._log.version_requests(against, Period(other, other + length)):
                counts[other] = count
            if len(counts) == DAYS_BEFORE:
                break
        here = await self._log.version_requests(ref, Period(day, day + length))
        if not counts or not here:
            return
        share = min(1.0, ENOUGH / max(sum(counts.values()), here))
        before = [one for other in counts for one in await self._attempts(against, other, length, share)]
        now = await self._attempts(ref, day, length, share)
        for one in drift.find(*drift.samples(now, before)):
            yield DriftNotice(day, against, len(counts), one)

    async def _attempts(self, ref: VersionRef, day: datetime, length: timedelta, share: float) -> Sequence[Attempt]:
        whole = [Period(day, day + length)]
        return await self._log.version_attempts(ref, whole if share == 1 else _slices(day, length, share))

    def _today(self) -> datetime:
        return self._clock.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _slices(day: datetime, length: timedelta, share: float) -> Sequence[Period]:
    """The first minutes of each hour, until `length` of the day is over."""
    starts = [day + HOUR * hour for hour in range(24) if HOUR * hour < length]
    return [Period(start, min(start + HOUR * share, day + length)) for start in starts]


def _whole(day: datetime) -> Period:
    return Period(day, day + DAY)
