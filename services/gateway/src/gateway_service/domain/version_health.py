"""How a version is doing: its traffic by day and arm, and whether it is worse than before."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gateway_service.domain import drift
from gateway_service.domain.known_models import KnownModels
from gateway_service.domain.ports import ModelRegistry
from gateway_service.domain.traffic.ports import CompletionLog
from gateway_service.domain.traffic.sample import ArmTraffic, Period
from ratchet_kit.faults import Faults
from ratchet_kit.names import VersionRef
from ratchet_kit.times import Clock

DAY = timedelta(days=1)
DEFAULT_DAYS = 7
MAX_DAYS = 30
LOOKED_AT = 2
"""Days that are looked at for drift: today, and the one before, so that a notice stays for a day."""
REFERENCE_DAYS = 28
ENOUGH = 50_000
"""Requests to hold a day against, of the latest days that have them."""


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
        days = f"{self.days} day{'' if self.days == 1 else 's'} of {self.against} before"
        return f"{self.start_time:%Y-%m-%d}: {self.drift.words}, by {days}"


@dataclass(frozen=True, slots=True)
class Health:
    days: Sequence[TrafficDay]
    """The oldest first; days without traffic are left out."""
    notices: Sequence[DriftNotice]


class VersionHealth:
    def __init__(self, log: CompletionLog, models: KnownModels, registry: ModelRegistry, clock: Clock) -> None:
        self._log = log
        self._models = models
        self._registry = registry
        self._clock = clock

    async def get(self, ref: VersionRef, days: int = 0) -> Health:
        """`days`: today and those before it; 0: DEFAULT_DAYS. Raises InvalidArgument for more than MAX_DAYS, NotFound,
        Unavailable."""
        faults = Faults()
        faults.bounds("days", days, at_least=0, at_most=MAX_DAYS)
        faults.raise_if_any()
        model = await self._models.find(ref.model)
        if model.champion != ref:
            await self._registry.version(ref)
        today = self._today()
        shown = [today - DAY * back for back in reversed(range(days or DEFAULT_DAYS))]
        found = [TrafficDay(day, arm) for day in shown for arm in await self._log.version_arms(ref, _whole(day))]
        others = [model.champion_before] if model.champion == ref and model.champion_before else []
        notices = [
            notice
            for back in reversed(range(LOOKED_AT))
            for against in (ref, *others)
            async for notice in self._notices(ref, today - DAY * back, against)
        ]
        return Health(found, notices)

    async def _notices(self, ref: VersionRef, day: datetime, against: VersionRef) -> AsyncIterator[DriftNotice]:
        """The same hours of the latest days before that have ENOUGH requests together, as far as there are such."""
        length = min(self._clock.now() - day, DAY)
        before: dict[Period, Sequence[ArmTraffic]] = {}
        for back in range(1, REFERENCE_DAYS + 1):
            period = Period(day - DAY * back, day - DAY * back + length)
            if arms := await self._log.version_arms(against, period):
                before[period] = arms
            if sum(arm.requests for arms in before.values() for arm in arms) >= ENOUGH:
                break
        if not before:
            return
        slow_after = drift.BOUNDS.max_latency_ratio * _p95([arm for arms in before.values() for arm in arms])
        now = await self._log.slowness_sample(ref, [Period(day, day + length)], slow_after)
        for one in drift.find(now, await self._log.slowness_sample(against, list(before), slow_after)):
            yield DriftNotice(day, against, len(before), one)

    def _today(self) -> datetime:
        return self._clock.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _p95(arms: Sequence[ArmTraffic]) -> timedelta:
    """The mean of their p95, weighted by requests."""
    requests = sum(arm.requests for arm in arms)
    return timedelta(seconds=sum(arm.requests * arm.latency_p95 for arm in arms) / requests)


def _whole(day: datetime) -> Period:
    return Period(day, day + DAY)
