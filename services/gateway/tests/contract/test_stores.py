"""One suite for each store: in memory, on SQLite and on PostgreSQL."""

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from gateway_service.adapters.sql.audit import SqlAuditStore
from gateway_service.adapters.sql.completions import SqlCompletionLog
from gateway_service.adapters.sql.experiments import SqlExperimentStore
from gateway_service.adapters.sql.keys import SqlKeyStore
from gateway_service.adapters.sql.releases import SqlReleaseStore
from gateway_service.adapters.sql.tables import api_keys, releases
from gateway_service.adapters.sql.webhooks import SqlWebhookStore
from gateway_service.domain.experiments.experiment import Experiment, ExperimentSpec, Metric, Variant
from gateway_service.domain.experiments.ports import ExperimentStore
from gateway_service.domain.keys.audit import AuditStore, Entry
from gateway_service.domain.keys.key import ApiKey, Scope
from gateway_service.domain.keys.ports import ChangedKeys, KeyStore
from gateway_service.domain.releases.ports import ReleaseStore
from gateway_service.domain.releases.release import Bounds, Release, ReleaseSpec, Stage
from gateway_service.domain.traffic.measure import Measure
from gateway_service.domain.traffic.ports import CompletionLog
from gateway_service.domain.webhooks.ports import WebhookStore
from ratchet_kit.errors import Aborted, AlreadyExists, FailedPrecondition, NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.names import VersionRef
from ratchet_kit.sql import Database
from ratchet_kit.usage import Prices

from ..memory import MemoryAuditStore, MemoryCompletionLog, MemoryKeyStore, MemoryReleaseStore
from ..memory_experiments import MemoryExperimentStore
from ..memory_webhooks import MemoryWebhookStore

NOW = datetime(2026, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)
PRICES = Prices(currency="EUR", million_prompt_tokens=1.0, million_completion_tokens=2.0)
STAGES = (Stage(10, timedelta(seconds=1.5), 3), Stage(100, timedelta(0), 0))


@dataclass(frozen=True)
class Stores:
    releases: ReleaseStore
    experiments: ExperimentStore
    completions: CompletionLog
    keys: KeyStore
    webhooks: WebhookStore
    audit: AuditStore


@pytest.fixture
def stores(database_or_memory: Database | None) -> Stores:
    if (database := database_or_memory) is None:
        webhooks = MemoryWebhookStore()
        experiments = MemoryExperimentStore(webhooks)
        completions = MemoryCompletionLog(experiments, PRICES)
        releases = MemoryReleaseStore(webhooks, experiments)
        return Stores(releases, experiments, completions, MemoryKeyStore(), webhooks, MemoryAuditStore())
    return Stores(
        SqlReleaseStore(database),
        SqlExperimentStore(database),
        SqlCompletionLog(database, PRICES),
        SqlKeyStore(database),
        SqlWebhookStore(database),
        SqlAuditStore(database),
    )


def release(number: int = 1, model: str = "starter") -> Release:
    spec = ReleaseSpec(VersionRef(model, 2), "gate_1", STAGES, Bounds(0.1, 3.0, 0.2))
    return Release(f"rel_{number}", spec, baseline=VersionRef("starter", 1), create_time=NOW)


def experiment(number: str = "1", model: str = "starter") -> Experiment:
    variants = tuple(Variant(name, VersionRef(model, 1 + place)) for place, name in enumerate(("control", "treatment")))
    return Experiment(f"exp_{number}", ExperimentSpec(variants, Metric(Measure.ERROR_RATE)), NOW)


def request(number: int = 1, content: str = "") -> Request:
    return Request.of(f"req_{number}", content)


class TestReleaseStore:
    async def test_gives_back_what_was_stored(self, stores: Stores) -> None:
        stored = release()
        await stores.releases.create(stored, request())
        assert await stores.releases.get("rel_1") == stored
        assert await stores.releases.find(request()) == stored
        assert await stores.releases.active("starter") == stored
        assert await stores.releases.all_active() == [stored]
        moved = await stores.releases.save(stored.begin(NOW).advance(NOW + timedelta(seconds=2), "good so far"))
        assert (moved.revision, moved.events[1].reason) == (1, "good so far")
        assert await stores.releases.get("rel_1") == moved

    async def test_what_does_not_exist(self, stores: Stores) -> None:
        with pytest.raises(NotFound):
            await stores.releases.get("rel_9")
        assert await stores.releases.find(request(9)) is None
        assert await stores.releases.active("starter") is None
        with pytest.raises(Aborted):
            await stores.releases.save(release(9))

    async def test_a_request_makes_one_release(self, stores: Stores) -> None:
        first = await stores.releases.create(release(), request())
        assert await stores.releases.create(release(2, "other"), request()) == first
        with pytest.raises(AlreadyExists):
            await stores.releases.create(release(2, "other"), request(content="another"))
        with pytest.raises(AlreadyExists):
            await stores.releases.find(request(content="another"))

    async def test_a_model_has_one_active_release(self, stores: Stores) -> None:
        await stores.releases.create(release(), request())
        with pytest.raises(FailedPrecondition):
            await stores.releases.create(release(2), request(2))
        await stores.releases.create(release(3, "other"), request(3))
        await stores.releases.save(release().roll_back(NOW, "worse"))
        await stores.releases.create(release(4), request(4))
        active = await stores.releases.active("starter")
        assert active is not None
        assert active.id == "rel_4"

    async def test_only_who_saw_the_latest_may_write(self, stores: Stores) -> None:
        await stores.releases.create(release(), request())
        await stores.releases.save(release().begin(NOW))
        with pytest.raises(Aborted):
            await stores.releases.save(release().roll_back(NOW, "too late"))
        assert (await stores.releases.get("rel_1")).percent == 10

    async def test_what_falls_back_is_active_still(self, stores: Stores) -> None:
        await stores.releases.create(release(), request())
        falling = await stores.releases.save(release().begin(NOW).promote(NOW, "").succeed(NOW).roll_back(NOW, "worse"))
        assert await stores.releases.all_active() == [falling]
        await stores.releases.save(falling.fallen_back(NOW))
        assert await stores.releases.active("starter") is None

    async def test_unfinished_until_the_loser_is_retired(self, stores: Stores) -> None:
        await stores.releases.create(release(), request())
        ended = await stores.releases.save(release().roll_back(NOW, "worse"))
        assert await stores.releases.unfinished() == [ended]
        await stores.releases.save(ended.retire(NOW))
        assert await stores.releases.unfinished() == []

    async def test_lists_newest_first(self, stores: Stores) -> None:
        for number, model in ((1, "a"), (2, "b"), (3, "c")):
            await stores.releases.create(release(number, model), request(number))

        async def ids(model: str, limit: int, after: str | None) -> list[str]:
            return [one.id for one in await stores.releases.page(model, limit, after)]

        assert await ids("", 2, None) == ["rel_3", "rel_2"]
        assert await ids("", 2, "rel_2") == ["rel_1"]
        assert await ids("b", 10, None) == ["rel_2"]

    async def test_starts_beside_no_experiment_of_live_traffic(self, stores: Stores) -> None:
        draft = await stores.experiments.create(experiment(), request())
        await stores.releases.create(release(3), request(3))
        with pytest.raises(FailedPrecondition, match="has a release under way"):
            await stores.experiments.start(draft.start(NOW))
        await stores.releases.save(release(3).roll_back(NOW, "worse"))
        started = await stores.experiments.start(draft.start(NOW))
        with pytest.raises(FailedPrecondition, match="experiment exp_1 of model starter is running: end it first"):
            await stores.releases.create(release(4), request(4))
        await stores.releases.create(release(5, "other"), request(6))
        await stores.experiments.save(started.stop(NOW, ""))
        await stores.releases.create(release(4), request(4))

    async def test_of_a_release_and_experiments_that_start_at_once_one_does(self, stores: Stores) -> None:
        """Each looks at what is under way before it is there itself: under one lock."""
        for turn in range(10):
            model = f"m{turn}"
            drafts = [
                await stores.experiments.create(experiment(f"{turn}{n}", model), request(100 * turn + n))
                for n in range(3)
            ]
            starts = [stores.experiments.start(draft.start(NOW)) for draft in drafts]
            creates = [
                stores.releases.create(release(10 * turn + n, model), request(100 * turn + n, "r")) for n in range(3)
            ]
            mixed = [one for pair in zip(creates, starts, strict=True) for one in pair]
            ends = await asyncio.gather(*mixed, return_exceptions=True)
            assert sum(not isinstance(end, FailedPrecondition) for end in ends) == 1, ends


def key(number: int) -> ApiKey:
    return ApiKey(f"key_{number}", "ci", f"digest{number}", "rk_abc", frozenset({Scope.ADMIN}), NOW)


class TestKeyStore:
    async def test_gives_back_what_was_stored(self, stores: Stores) -> None:
        await stores.keys.create(replace(key(1), monthly_tokens=2**40), request(1))
        await stores.keys.create(key(2), request(2))
        assert await stores.keys.get("key_1") == replace(key(1), monthly_tokens=2**40)
        await stores.keys.change("key_1", lambda _: key(1))
        assert await stores.keys.by_digest("digest2") == key(2)
        assert await stores.keys.page(10, None) == [key(2), key(1)]
        assert await stores.keys.page(1, "key_2") == [key(1)]
        revoked = await stores.keys.change("key_1", lambda key: key.revoke(NOW))
        assert revoked == await stores.keys.get("key_1")
        assert revoked.revoke_time == NOW
        consenting = await stores.keys.change("key_2", lambda key: key.set_traffic(True))
        assert (consenting.keep_traffic, await stores.keys.get("key_2")) == (True, consenting)

    async def test_what_does_not_exist(self, stores: Stores) -> None:
        assert await stores.keys.by_digest("digest1") is None
        with pytest.raises(NotFound):
            await stores.keys.get("key_1")
        with pytest.raises(NotFound):
            await stores.keys.change("key_1", lambda key: key)

    async def test_a_change_that_is_refused_changes_nothing(self, stores: Stores) -> None:
        await stores.keys.create(key(1), request(1))
        await stores.keys.change("key_1", lambda key: key.revoke(NOW))
        with pytest.raises(FailedPrecondition):
            await stores.keys.change("key_1", lambda key: key.set_traffic(True))
        assert not (await stores.keys.get("key_1")).keep_traffic

    async def test_a_digest_is_taken_once(self, stores: Stores) -> None:
        await stores.keys.create(key(1), request(1))
        with pytest.raises(AlreadyExists):
            await stores.keys.create(replace(key(2), digest="digest1"), request(2))

    async def test_what_changed_since_a_revision(self, stores: Stores) -> None:
        assert await stores.keys.changed_since(0) == ChangedKeys([], 0)
        await stores.keys.create(key(1), request(1))
        first = await stores.keys.changed_since(0)
        assert first.keys == [key(1)]
        await stores.keys.create(key(2), request(2))
        await stores.keys.change("key_1", lambda key: key.revoke(NOW))
        later = await stores.keys.changed_since(first.revision)
        assert {one.id: one.revoke_time for one in later.keys} == {"key_1": NOW, "key_2": None}
        assert await stores.keys.changed_since(later.revision) == ChangedKeys([], later.revision)

    async def test_a_request_makes_one_key(self, stores: Stores) -> None:
        await stores.keys.create(key(1), request())
        assert await stores.keys.create(key(2), request()) == key(1)
        with pytest.raises(AlreadyExists):
            await stores.keys.create(key(2), request(content="another"))


async def test_what_cannot_be_read_hides_no_other_in_a_list(database: Database) -> None:
    store, keys = SqlReleaseStore(database), SqlKeyStore(database)
    for number in (1, 2, 3):
        await store.create(release(number, f"model-{number}"), request(number))
        await keys.create(key(number), request(number))
    async with database.writing() as connection:
        await connection.execute(update(releases).where(releases.c.id == "rel_2").values(document={"un": "heard"}))
        await connection.execute(update(api_keys).where(api_keys.c.id == "key_2").values(scopes=["unheard"]))
    assert [one.id for one in await store.page("", 2, None)] == ["rel_3", "rel_1"]
    assert [one.id for one in await keys.page(2, None)] == ["key_3", "key_1"]


class TestAuditStore:
    async def test_entries_by_key_and_time(self, stores: Stores) -> None:
        hour = timedelta(hours=1)
        entries = [
            Entry(f"aud_{n}", NOW + n * hour, f"key_{n % 2}", "me", "KeyService.RevokeKey", "key_9", "OK", "req_1")
            for n in range(4)
        ]
        for entry in entries:
            await stores.audit.add(entry)

        async def found(actor: str = "", since: datetime | None = None, after: str | None = None) -> list[str]:
            return [entry.id for entry in await stores.audit.page(actor, since, 2, after)]

        assert await stores.audit.page("", None, 1, None) == [entries[3]]
        assert await found() == ["aud_3", "aud_2"]
        assert await found(after="aud_2") == ["aud_1", "aud_0"]
        assert await found(actor="key_0") == ["aud_2", "aud_0"]
        assert await found(since=NOW + 3 * hour) == ["aud_3"]
