"""The stores in memory, for tests."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from gateway_service.domain.keys.audit import Entry
from gateway_service.domain.keys.costs import Charge
from gateway_service.domain.keys.key import ApiKey
from gateway_service.domain.keys.ports import ChangedKeys
from gateway_service.domain.releases.release import Release
from gateway_service.domain.statistics.moments import Moments, Products
from gateway_service.domain.statistics.strata import Strata
from gateway_service.domain.traffic.exchange import Exchange
from gateway_service.domain.traffic.measure import Quantity
from gateway_service.domain.traffic.metrics import NO_METRICS, Metrics, merged
from gateway_service.domain.traffic.ports import NO_SCORE
from gateway_service.domain.traffic.record import Arm, CompletionRecord, ProblemRef, Unit, answers_of, unit_id
from gateway_service.domain.traffic.sample import ArmSample, ArmTraffic, Attempt, Period, UnitCount, UnitLatency
from gateway_service.domain.webhooks.event import event_of_release
from ratchet_kit.errors import Aborted, AlreadyExists, NotFound
from ratchet_kit.idempotency import Made, Request
from ratchet_kit.names import VersionRef
from ratchet_kit.usage import Prices

from . import memory_experiments
from .memory_webhooks import MemoryWebhookStore


class MemoryReleaseStore:
    def __init__(
        self,
        webhooks: MemoryWebhookStore | None = None,
        experiments: memory_experiments.MemoryExperimentStore | None = None,
    ) -> None:
        """`webhooks`: they are told of what ends. `experiments`: what starts, starts beside none of these."""
        self._webhooks = webhooks or MemoryWebhookStore()
        self._experiments = experiments or memory_experiments.MemoryExperimentStore()
        self._experiments.releases = self
        self._releases: dict[str, Release] = {}
        self._made: Made[str] = Made("release")

    async def create(self, release: Release, request: Request) -> Release:
        existing = await self.find(request)
        if existing is not None:
            return existing
        (await self._experiments.under_way(release.model)).check_release()
        self._releases[release.id] = release
        self._made.add(request, release.id)
        return release

    async def find(self, request: Request) -> Release | None:
        release_id = self._made.find(request)
        return None if release_id is None else self._releases[release_id]

    async def get(self, release_id: str) -> Release:
        if release_id not in self._releases:
            raise NotFound(f"release {release_id} does not exist")
        return self._releases[release_id]

    async def active(self, model: str) -> Release | None:
        return next((r for r in self._releases.values() if r.active and r.model == model), None)

    async def all_active(self) -> Sequence[Release]:
        return [r for r in self._sorted() if r.active]

    async def unfinished(self) -> Sequence[Release]:
        return [r for r in self._sorted() if r.active or r.retire_time is None]

    async def page(self, model: str, limit: int, after: str | None) -> Sequence[Release]:
        newest_first = [r for r in reversed(self._sorted()) if not model or r.model == model]
        return [r for r in newest_first if after is None or r.id < after][:limit]

    async def save(self, release: Release) -> Release:
        stored = self._releases.get(release.id)
        if stored is None or stored.revision != release.revision:
            raise Aborted(f"release {release.id} was changed by someone else at the same time")
        saved = replace(release, revision=release.revision + 1)
        self._releases[release.id] = saved
        if event := event_of_release(saved):
            self._webhooks.announce_now([event], event.create_time)
        return saved

    def _sorted(self) -> Sequence[Release]:
        return sorted(self._releases.values(), key=lambda release: release.id)


class MemoryCompletionLog:
    def __init__(
        self, experiments: memory_experiments.MemoryExperimentStore | None = None, prices: Prices | None = None
    ) -> None:
        """`experiments`: those under way keep their records."""
        self.prices = prices
        self.records: dict[str, CompletionRecord] = {}
        self.exchanges: dict[str, Exchange] = {}
        """For `MemoryExchangeStore`, as the next."""
        self.feedback: Made[float] = Made("feedback")
        self._experiments = experiments
        self._forgotten: dict[str, datetime] = {}
        self.unconfirmed: dict[str, datetime] = {}

    async def append(self, records: Sequence[CompletionRecord]) -> None:
        sifted = [replace(one, texts=(), material=None) if self._is_forgotten(one) else one for one in records]
        self.exchanges = {one.id: Exchange.of(one) for one in sifted if one.material} | self.exchanges
        self.records = {one.id: replace(one, material=None) for one in sifted} | self.records

    async def answers(self, since: datetime) -> Sequence[Charge]:
        begin = since.astimezone(UTC).date()
        records = [one for one in self.records.values() if one.start_time.astimezone(UTC).date() >= begin]
        return answers_of(records, self.prices)

    def forget(self, unit: str, before: datetime) -> int:
        """As `ExchangeStore.forget`, of a unit by its id."""
        self._forgotten[unit] = self.unconfirmed[unit] = before
        kept = [one.id for one in self.exchanges.values() if self._is_forgotten(one)]
        texts = [one.id for one in self.records.values() if one.texts and self._is_forgotten(one)]
        self.exchanges = {id: one for id, one in self.exchanges.items() if id not in kept}
        self.records |= {id: replace(self.records[id], texts=()) for id in texts}
        return len(kept) + len(texts)

    def _is_forgotten(self, one: CompletionRecord | Exchange) -> bool:
        units = [one.user, one.session, unit_id(Unit.KEY, one.key_id)]
        units += [one.unit] if isinstance(one, CompletionRecord) else []
        return any(one.start_time <= self._forgotten[unit] for unit in units if unit in self._forgotten)

    async def get(self, completion_id: str) -> CompletionRecord:
        if completion_id not in self.records:
            raise NotFound(f"completion {completion_id} is not known")
        return self.records[completion_id]

    async def recorded(self, completion_ids: Sequence[str]) -> frozenset[str]:
        return frozenset(completion_ids) & self.records.keys()

    async def set_score(
        self,
        completion_id: str,
        score: float,
        problem: ProblemRef | None,
        request: Request,
        metrics: Metrics = NO_METRICS,
    ) -> float:
        existing = await self.find_score(request)
        if existing is not None:
            return existing
        await self.get(completion_id)
        self.measure(completion_id, metrics)
        record = self.records[completion_id]
        self.records[completion_id] = replace(record, score=score, problem=problem, texts=())
        if completion_id in self.exchanges:
            self.exchanges[completion_id] = replace(self.exchanges[completion_id], score=score, problem=problem)
        self.feedback.add(request, score)
        return score

    async def add_metrics(self, completion_id: str, metrics: Metrics, request: Request) -> None:
        if await self.find_score(request) is None:
            await self.get(completion_id)
            self.measure(completion_id, metrics)
            self.feedback.add(request, NO_SCORE)

    def measure(self, completion_id: str, metrics: Metrics) -> None:
        """Nothing where there is no record."""
        if record := self.records.get(completion_id):
            self.records[completion_id] = replace(record, metrics=merged(completion_id, record.metrics, metrics))

    async def find_score(self, request: Request) -> float | None:
        return self.feedback.find(request)

    async def release_sample(self, release_id: str, arm: Arm, stage: int) -> ArmSample:
        wanted = release_id, arm, stage
        of_arm = [one for one in self.records.values() if (one.release_id, one.arm, one.stage) == wanted]
        return memory_experiments.sample(of_arm)

    async def release_scores(self, release_id: str) -> Strata:
        return memory_experiments.scores([one for one in self.records.values() if one.release_id == release_id])

    async def version_sample(self, ref: VersionRef, period: Period) -> ArmSample:
        found = memory_experiments.outside(self.records.values(), period)
        return memory_experiments.sample([record for record in found if record.version == ref])

    async def version_attempts(self, ref: VersionRef, periods: Sequence[Period]) -> Sequence[Attempt]:
        found = [one for period in periods for one in memory_experiments.outside(self.records.values(), period)]
        return [
            Attempt(one.unit or one.id, bool(one.error), one.left, one.score, one.latency.total_seconds())
            for one in found
            if one.version == ref
        ]

    async def version_requests(self, ref: VersionRef, period: Period) -> int:
        return sum(
            one.version == ref and period.start_time <= one.start_time < period.end_time
            for one in self.records.values()
        )

    async def version_arms(self, ref: VersionRef, period: Period) -> Sequence[ArmTraffic]:
        in_period = [one for one in self.records.values() if period.start_time <= one.start_time < period.end_time]
        arms: dict[Arm, list[CompletionRecord]] = {}
        for one in in_period:
            if one.version == ref and one.arm is not Arm.REPLAY:
                arms.setdefault(one.arm, []).append(one)
        return [memory_experiments.traffic(arm, arms[arm]) for arm in sorted(arms)]

    async def latest_latencies(self, ref: VersionRef) -> Sequence[UnitLatency]:
        found = memory_experiments.outside(self.records.values())
        return memory_experiments.sample([record for record in found if record.version == ref]).latencies

    async def experiment_units(self, experiment_id: str, until: datetime | None = None) -> Mapping[str, UnitCount]:
        return memory_experiments.counts(self._by(until), experiment_id)

    async def experiment_reached(
        self, experiment_id: str, quantity: Quantity | None, units: int
    ) -> Mapping[str, datetime]:
        return memory_experiments.reached(self.records.values(), experiment_id, quantity, units)

    async def experiment_moments(
        self, experiment_id: str, quantity: Quantity, past: Period, until: datetime | None = None
    ) -> Mapping[str, Moments]:
        return memory_experiments.moments(self._by(until), experiment_id, quantity, past)

    async def experiment_products(
        self, experiment_id: str, quantity: Quantity, first: str, until: datetime | None = None
    ) -> Mapping[str, Products]:
        return memory_experiments.products(self._by(until), experiment_id, quantity, first)

    async def experiment_latencies(
        self, experiment_id: str, variant: str, until: datetime | None = None
    ) -> Sequence[UnitLatency]:
        return memory_experiments.latencies(self._by(until), experiment_id, variant)

    def _by(self, until: datetime | None) -> Sequence[CompletionRecord]:
        return [record for record in self.records.values() if until is None or record.start_time <= until]

    async def recent_moments(self, model: str, quantity: Quantity, unit: Unit, period: Period) -> Moments:
        return memory_experiments.recent(self.records.values(), model, quantity, unit, period)

    async def busy_models(self, since: datetime) -> Sequence[str]:
        recent = [one for one in self.records.values() if one.start_time >= since and one.arm is not Arm.REPLAY]
        return sorted({one.version.model for one in recent})

    async def scored(self, model: str, since: datetime | None) -> int:
        of_model = [one for one in self.records.values() if one.version.model == model and one.arm is not Arm.REPLAY]
        records = [one for one in of_model if one.score is not None]
        return sum(since is None or one.start_time >= since for one in records)

    async def forget_texts(self, before: datetime) -> int:
        old = {id: one for id, one in self.records.items() if one.texts and one.start_time < before}
        self.records |= {id: replace(record, texts=()) for id, record in old.items()}
        return len(old)

    async def forget_records(self, before: datetime) -> int:
        under_way = {one.id for one in await self._experiments.active()} if self._experiments else set()
        kept = {
            id: record
            for id, record in self.records.items()
            if record.start_time >= before or record.experiment_id in under_way
        }
        count, self.records = len(self.records) - len(kept), kept
        return count


class MemoryKeyStore:
    def __init__(self) -> None:
        self._keys: dict[str, ApiKey] = {}
        self._changes: list[str] = []
        self._made: Made[str] = Made("API key")

    async def create(self, key: ApiKey, request: Request) -> ApiKey:
        existing = self._made.find(request)
        if existing is not None:
            return self._keys[existing]
        if await self.by_digest(key.digest):
            raise AlreadyExists("this API key exists")
        self._set(key)
        self._made.add(request, key.id)
        return key

    async def get(self, key_id: str) -> ApiKey:
        if key_id not in self._keys:
            raise NotFound(f"API key {key_id} does not exist")
        return self._keys[key_id]

    async def by_digest(self, digest: str) -> ApiKey | None:
        return next((key for key in self._keys.values() if key.digest == digest), None)

    async def page(self, limit: int, after: str | None) -> Sequence[ApiKey]:
        newest_first = sorted(self._keys.values(), key=lambda key: key.id, reverse=True)
        return [key for key in newest_first if after is None or key.id < after][:limit]

    async def change(self, key_id: str, change: Callable[[ApiKey], ApiKey]) -> ApiKey:
        changed = change(await self.get(key_id))
        self._set(changed)
        return changed

    async def changed_since(self, revision: int) -> ChangedKeys:
        return ChangedKeys([self._keys[id] for id in set(self._changes[revision:])], len(self._changes))

    def _set(self, key: ApiKey) -> None:
        self._keys[key.id] = key
        self._changes.append(key.id)


class MemoryAuditStore:
    def __init__(self) -> None:
        self.entries: list[Entry] = []

    async def add(self, entry: Entry) -> None:
        self.entries.append(entry)

    async def page(self, actor: str, since: datetime | None, limit: int, after: str | None) -> Sequence[Entry]:
        found = sorted(self.entries, key=lambda entry: entry.id, reverse=True)
        return [
            entry
            for entry in found
            if (after is None or entry.id < after)
            and actor in ("", entry.actor)
            and (since is None or entry.create_time >= since)
        ][:limit]
