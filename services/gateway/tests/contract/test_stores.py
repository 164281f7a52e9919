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
from gateway_service.domain.statistics.moments import Moments, Products
from gateway_service.domain.statistics.strata import Cell, Strata
from gateway_service.domain.traffic.measure import Measure
from gateway_service.domain.traffic.ports import CompletionLog
from gateway_service.domain.traffic.record import Arm, CompletionRecord, ProblemRef
from gateway_service.domain.traffic.recorder import Recorder
from gateway_service.domain.traffic.redaction import Redaction
from gateway_service.domain.traffic.sample import ArmSample, ArmTraffic, Period
from gateway_service.domain.webhooks.ports import WebhookStore
from ratchet_kit.errors import Aborted, AlreadyExists, FailedPrecondition, NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.names import VersionRef
from ratchet_kit.sql import Database
from ratchet_kit.usage import Prices
from ratchet_testing.clock import ManualClock

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


def record(number: int, arm: Arm = Arm.CANDIDATE, **changes: object) -> CompletionRecord:
    number_of = {Arm.CANDIDATE: 2}
    made = CompletionRecord(
        id=f"cmpl_{number:03}",
        start_time=NOW,
        version=VersionRef("starter", number_of.get(arm, 1)),
        arm=arm,
        latency=timedelta(seconds=number),
        release_id="" if arm is Arm.NONE else "rel_1",
        policy_id="sha256:ab",
        prompt_tokens=3,
        completion_tokens=5,
        texts=("def f():\n    return 'ä'",),
    )
    return replace(made, **changes)


def new_request() -> Request:
    return Request.of("")


class TestCompletionLog:
    async def test_an_append_may_be_repeated(self, stores: Stores) -> None:
        """Its answer may have been lost: the database ended the connection after the commit."""
        await stores.completions.append([record(1)])
        await stores.completions.append([record(1, error="another"), record(2)])
        assert (await stores.completions.get("cmpl_001")).error == ""
        assert (await stores.completions.get("cmpl_002")) == record(2)

    async def test_gives_back_what_was_stored(self, stores: Stores) -> None:
        stored = record(1, error="", latency=timedelta(milliseconds=250))
        await stores.completions.append([stored, record(2)])
        await stores.completions.append([])
        assert await stores.completions.get("cmpl_001") == stored

    async def test_what_does_not_exist(self, stores: Stores) -> None:
        with pytest.raises(NotFound):
            await stores.completions.get("cmpl_9")
        with pytest.raises(NotFound):
            await stores.completions.set_score("cmpl_9", 1.0, None, new_request())
        with pytest.raises(NotFound):
            await stores.completions.add_metrics("cmpl_9", {"x": 1.0}, new_request())

    async def test_which_are_recorded(self, stores: Stores) -> None:
        await stores.completions.append([record(1), record(2)])
        assert await stores.completions.recorded(["cmpl_001", "cmpl_009"]) == {"cmpl_001"}
        assert await stores.completions.recorded([]) == frozenset()

    async def test_a_score_takes_the_place_of_the_text(self, stores: Stores) -> None:
        await stores.completions.append([record(1)])
        problem = ProblemRef("composed/test", "p1")
        await stores.completions.set_score("cmpl_001", 0.5, problem, new_request())
        scored = await stores.completions.get("cmpl_001")
        assert (scored.score, scored.problem, scored.texts) == (0.5, problem, ())
        await stores.completions.set_score("cmpl_001", 1.0, None, new_request())
        scored = await stores.completions.get("cmpl_001")
        assert (scored.score, scored.problem) == (1.0, None)

    async def test_a_request_sets_one_score(self, stores: Stores) -> None:
        await stores.completions.append([record(1)])
        assert await stores.completions.find_score(request()) is None
        assert await stores.completions.set_score("cmpl_001", 0.5, None, request()) == 0.5
        assert await stores.completions.set_score("cmpl_001", 1.0, None, request()) == 0.5
        assert await stores.completions.find_score(request()) == 0.5
        assert (await stores.completions.get("cmpl_001")).score == 0.5
        with pytest.raises(AlreadyExists):
            await stores.completions.set_score("cmpl_001", 1.0, None, request(content="another"))

    async def test_metrics_are_added_once_for_a_request(self, stores: Stores) -> None:
        log = stores.completions
        await log.append([record(1)])
        await log.add_metrics("cmpl_001", {"a": 1.0, "b": 2.0}, request())
        await log.add_metrics("cmpl_001", {"b": 3.0}, request(2))
        await log.add_metrics("cmpl_001", {"a": 1.0, "b": 2.0}, request())
        measured = await log.get("cmpl_001")
        assert (measured.metrics, measured.texts, measured.score) == ({"a": 1.0, "b": 3.0}, record(1).texts, None)
        assert await log.find_score(request()) == 0
        with pytest.raises(AlreadyExists):
            await log.add_metrics("cmpl_001", {"a": 2.0}, request(content="another"))

    async def test_metrics_are_stored_with_the_score_or_neither_is(self, stores: Stores) -> None:
        log = stores.completions
        await log.append([record(1)])
        await log.set_score("cmpl_001", 0.5, None, request(), {f"m{number}": 1.0 for number in range(20)})
        with pytest.raises(FailedPrecondition):
            await log.set_score("cmpl_001", 1.0, None, request(2), {"another": 1.0})
        scored = await log.get("cmpl_001")
        assert (scored.score, len(scored.metrics)) == (0.5, 20)
        assert await log.find_score(request(2)) is None

    async def test_scored_answers_of_a_model_are_counted(self, stores: Stores) -> None:
        log = stores.completions
        later = NOW + timedelta(days=1)
        await log.append([record(1), record(2, start_time=later), record(3, start_time=later)])
        await log.append([record(4, version=VersionRef("another", 1)), record(5, Arm.REPLAY, score=1.0)])
        for number in (1, 2, 2, 4):
            await log.set_score(f"cmpl_{number:03}", 0.5, None, new_request())
        assert await log.scored("starter", None) == 2
        assert await log.scored("starter", later) == 1
        assert await log.scored("starter", later + timedelta(seconds=1)) == 0
        assert await log.scored("nothing", None) == 0

    async def test_models_that_were_asked(self, stores: Stores) -> None:
        other, replayed = VersionRef("other", 1), VersionRef("replayed", 1)
        log = stores.completions
        await log.append([record(1), record(2), record(3, version=other), record(4, Arm.REPLAY, version=replayed)])
        assert await log.busy_models(NOW) == ["other", "starter"]
        assert await log.busy_models(NOW + timedelta(seconds=1)) == []

    async def test_a_release_is_summed_up_by_users_and_stages(self, stores: Stores) -> None:
        log = stores.completions
        slow = {"slow_after": timedelta(seconds=5)}
        records = [
            record(1, unit="ann"),
            record(2, unit="ann", error="died"),
            record(3),
            record(4, stage=1, unit="ann", score=1.0, **slow),
            record(5, stage=1, error="died", **slow),
            record(6, stage=1, unit="bob", left=True, **slow),
            record(14, stage=1, unit="cat", left=True, slow_after=timedelta(seconds=20)),
            record(7, release_id="rel_0"),
            record(8, Arm.BASELINE),
            record(9, Arm.FALLBACK),
            record(10, Arm.NONE),
            record(11, stage=1, unit="ann", **slow),
            record(12, Arm.BASELINE, stage=1, unit="bob", score=0.5),
            record(13, Arm.BASELINE, unit="ann", score=0.75),
        ]
        await log.append(records[:4])
        await log.append(records)  # of which four were there
        await log.set_score("cmpl_003", 0.25, None, new_request())
        await log.set_score("cmpl_003", 0.5, None, new_request())
        await log.set_score("cmpl_010", 1.0, None, new_request())
        first, second = [await log.release_sample("rel_1", Arm.CANDIDATE, stage) for stage in (0, 1)]
        assert (first.requests, first.answered, first.errors, first.left) == (3, 3, 1, 0)
        # ann: 2 requests, 1 failed; one of nobody
        assert first.failures == Moments(units=2, x=3, y=1, xx=5, yy=1, xy=2)
        assert first.scores == Moments(units=1, x=1, y=0.5, xx=1, yy=0.25, xy=0.5)
        assert {(one.unit, one.latency) for one in first.latencies} == {("ann", 1.0), ("cmpl_003", 3.0)}
        # ann: 2 requests; one of nobody, which failed; one each that bob and cat left
        assert (second.requests, second.answered, second.errors, second.left) == (5, 3, 1, 2)
        assert second.failures == Moments(units=2, x=3, y=1, xx=5, yy=1, xy=1)
        assert second.leaving == Moments(units=4, x=5, y=2, xx=7, yy=2, xy=2)
        # ann: one of two was slow; bob left after longer than that, and cat before it: that says nothing
        assert second.slowness == Moments(units=2, x=3, y=2, xx=5, yy=2, xy=3)
        assert first.slowness == Moments()
        latest = await log.latest_latencies(VersionRef("starter", 2))
        assert {one.latency for one in latest} == {1.0, 3.0, 4.0, 7.0, 11.0}
        assert (await log.release_sample("rel_1", Arm.BASELINE, 0)).requests == 2
        assert await log.release_sample("rel_9", Arm.CANDIDATE, 0) == ArmSample()

        scores = await log.release_scores("rel_1")
        asked_first, asked_second = Cell(0, Arm.CANDIDATE), Cell(1, Arm.CANDIDATE)
        ann_before, bob = Cell(0, Arm.BASELINE), Cell(1, Arm.BASELINE)
        assert scores.cells == {
            asked_first: first.scores,
            asked_second: Moments(units=1, x=1, y=1, xx=1, yy=1, xy=1),
            ann_before: Moments(units=1, x=1, y=0.75, xx=1, yy=0.5625, xy=0.75),
            bob: Moments(units=1, x=1, y=0.5, xx=1, yy=0.25, xy=0.5),
        }
        # ann has scores of the baseline's, and later of the candidate's
        assert scores.shared == {(ann_before, asked_second): Products(1, 1.0, 1.0, 0.75, 0.75)}
        assert scores.number(Arm.CANDIDATE) == 2
        assert await log.release_scores("rel_9") == Strata()

    async def test_a_version_is_summed_up_over_a_period(self, stores: Stores) -> None:
        await stores.completions.append(
            [
                record(1, Arm.NONE, unit="ann", score=0.5),
                record(2, Arm.NONE, unit="ann", error="died"),
                record(3, Arm.BASELINE),
                record(4, Arm.NONE, left=True),
                record(5, Arm.FALLBACK),
                record(6, Arm.NONE, experiment_id="exp_1"),
                record(7, Arm.NONE, start_time=NOW - timedelta(days=2)),
                record(8, Arm.NONE, version=VersionRef("starter", 3)),
            ]
        )
        day = Period(NOW - timedelta(days=1), NOW + timedelta(seconds=1))
        sample = await stores.completions.version_sample(VersionRef("starter", 1), day)
        assert sample.failures == Moments(units=2, x=3, y=1, xx=5, yy=1, xy=2, before=sample.failures.before)
        assert (sample.scored, sample.mean_score) == (1, 0.5)
        assert sample.leaving == Moments(units=3, x=4, y=1, xx=6, yy=1, xy=1)
        assert {(one.unit, one.latency) for one in sample.latencies} == {("ann", 1.0), ("cmpl_003", 3.0)}

    async def test_a_version_is_summed_up_by_arm(self, stores: Stores) -> None:
        log, one = stores.completions, VersionRef("starter", 1)
        await log.append([record(number, Arm.NONE) for number in range(1, 31)])
        await log.append(
            [
                record(31, Arm.NONE, score=0.5),
                record(32, Arm.NONE, score=1.0, experiment_id="exp_1"),
                record(33, Arm.NONE, error="died"),
                record(34, Arm.NONE, left=True),
                record(35, Arm.FALLBACK, error="died"),
                record(36, Arm.REPLAY),
                record(37, Arm.NONE, start_time=NOW + timedelta(hours=1)),
                record(38, Arm.NONE, version=VersionRef("starter", 3)),
            ]
        )
        hour = Period(NOW, NOW + timedelta(hours=1))
        assert await log.version_arms(one, hour) == [
            ArmTraffic(Arm.FALLBACK, 1, 1, prompt_tokens=3, completion_tokens=5),
            ArmTraffic(Arm.NONE, 34, 1, 1, 102, 170, 2, 0.75, 16.0, 31.0),
        ]
        assert await log.version_arms(VersionRef("other", 1), hour) == []

    async def test_attempts_of_several_periods(self, stores: Stores) -> None:
        log, one = stores.completions, VersionRef("starter", 1)
        day = timedelta(days=1)
        await log.append(
            [
                record(1, Arm.NONE, unit="ann", score=0.5),
                record(2, Arm.NONE, unit="ann", start_time=NOW - day),
                record(3, Arm.BASELINE, start_time=NOW - day),
                record(4, Arm.NONE, start_time=NOW - day / 2),
                record(5, Arm.NONE, error="died"),
                record(6, Arm.NONE, left=True),
                record(7, Arm.FALLBACK),
            ]
        )
        hours = [Period(NOW - day * back, NOW - day * back + timedelta(hours=1)) for back in (0, 1)]
        assert sorted(await log.version_attempts(one, hours), key=lambda one: (one.unit, -one.latency)) == [
            ("ann", False, False, None, 2.0),
            ("ann", False, False, 0.5, 1.0),
            ("cmpl_003", False, False, None, 3.0),
            ("cmpl_005", True, False, None, 5.0),
            ("cmpl_006", False, True, None, 6.0),
        ]
        assert [await log.version_requests(one, hour) for hour in hours] == [4, 2]

    async def test_forgets_old_texts_however_long_nobody_did(self, stores: Stores) -> None:
        log, ages = stores.completions, {1: 29, 2: 4, 3: 2, 4: 0}
        await log.append([record(number, start_time=NOW - timedelta(days=age)) for number, age in ages.items()])
        await log.set_score("cmpl_003", 0.5, None, request())
        assert await log.forget_texts(NOW - timedelta(days=1)) == 2
        assert [(await log.get(f"cmpl_{number:03}")).texts for number in (1, 2, 3)] == [(), (), ()]
        assert (await log.get("cmpl_004")).texts
        assert await log.forget_texts(NOW - timedelta(days=1)) == 0

    async def test_forgets_old_records(self, stores: Stores) -> None:
        ages = {1: 40, 2: 2}
        await stores.completions.append(
            [record(number, start_time=NOW - timedelta(days=age)) for number, age in ages.items()]
        )
        assert await stores.completions.forget_records(NOW - timedelta(days=30)) == 1
        with pytest.raises(NotFound):
            await stores.completions.get("cmpl_001")
        assert (await stores.completions.get("cmpl_002")).texts


def key(number: int) -> ApiKey:
    return ApiKey(f"key_{number}", "ci", f"digest{number}", "rk_abc", frozenset({Scope.ADMIN}), NOW)


async def test_answers_are_summed_once_by_key_and_version_and_outlast_their_records(stores: Stores) -> None:
    first = [record(1, key_id="key_1"), record(2, Arm.NONE, key_id="key_1"), record(3, key_id="key_2"), record(4)]
    before = replace(record(5, key_id="key_1"), start_time=NOW - timedelta(days=1))
    await stores.completions.append([*first, before])
    await stores.completions.append([*first, record(6, key_id="key_1")])  # an append whose answer was lost
    cost = (3 * 1.0 + 5 * 2.0) / 1e6
    second, other = VersionRef("starter", 2), VersionRef("starter", 1)

    found = await stores.completions.answers(NOW.replace(hour=23))
    assert {(one.actor, one.version): (one.answers, one.usage.prompt_tokens, one.usage.cost) for one in found} == {
        (key, str(version)): (answers, 3 * answers, pytest.approx(answers * cost))
        for key, version, answers in (("", second, 1), ("key_1", other, 1), ("key_1", second, 2), ("key_2", second, 1))
    }
    assert {(one.id == one.actor, one.model, one.usage.currency) for one in found} == {(True, "starter", "EUR")}
    assert sum(one.answers for one in await stores.completions.answers(NOW - timedelta(days=1))) == 6
    assert await stores.completions.answers(NOW + timedelta(days=1)) == []


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


@pytest.mark.integration
async def test_a_record_that_postgresql_cannot_hold_is_set_aside(postgres_url: str, clock: ManualClock) -> None:
    async with Database.opened(postgres_url, "gateway_service") as database:
        log = SqlCompletionLog(database)
        recorder = Recorder(log, Redaction([]))
        recorder.record(record(1))
        recorder.record(record(2, error="a NUL: \0"))
        recorder.record(record(3, version=VersionRef("m" * 64, 1)))
        recorder.record(record(4, prompt_tokens=1 << 40))
        recorder.record(record(5))
        await recorder.flush()
        for number in (1, 5):
            assert await log.get(f"cmpl_{number:03}") == record(number)
        for number in (2, 3, 4):
            with pytest.raises(NotFound):
                await log.get(f"cmpl_{number:03}")


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
