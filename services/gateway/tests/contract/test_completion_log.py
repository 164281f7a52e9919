"""One suite for the log of completions: as test_stores."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gateway_service.adapters.sql.completions import SqlCompletionLog
from gateway_service.domain.statistics.moments import Moments, Products
from gateway_service.domain.statistics.strata import Cell, Strata
from gateway_service.domain.traffic.record import Arm, CompletionRecord, ProblemRef
from gateway_service.domain.traffic.recorder import Recorder
from gateway_service.domain.traffic.redaction import Redaction
from gateway_service.domain.traffic.sample import ArmSample, ArmTraffic, Period
from ratchet_kit.errors import AlreadyExists, FailedPrecondition, NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.names import VersionRef
from ratchet_kit.sql import Database
from ratchet_testing.clock import ManualClock

from .test_stores import NOW, Stores, request, stores

__all__ = ["stores"]


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
