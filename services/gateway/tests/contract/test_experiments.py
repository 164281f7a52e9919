"""One suite for the store of experiments, and for what the request log sums up of them: as test_stores."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gateway_service.domain.experiments.analysis import Evidence, analyse
from gateway_service.domain.experiments.experiment import (
    Direction,
    Experiment,
    ExperimentSpec,
    Metric,
    State,
    Variant,
)
from gateway_service.domain.experiments.replay import Replay, ReplayPrompt
from gateway_service.domain.statistics.moments import Before, Moments, Products
from gateway_service.domain.traffic.measure import Measure, Quantity, TokenPrice
from gateway_service.domain.traffic.record import Arm, CompletionRecord, ProblemRef, Unit
from gateway_service.domain.traffic.sample import Period, UnitCount, UnitLatency
from ratchet_kit.errors import Aborted, AlreadyExists, NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.names import VersionRef
from ratchet_policies import ChatPrompt, Sampling, TextPrompt, TokenPrompt
from ratchet_problems import Message

from .test_stores import Stores, stores

__all__ = ["stores"]

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
PAST = Period(NOW - timedelta(days=14), NOW)
QUALITY = Quantity(Measure.QUALITY)


def experiment(number: int = 1, model: str = "starter") -> Experiment:
    variants = tuple(Variant(name, VersionRef(model, i + 1)) for i, name in enumerate(("a", "b")))
    return Experiment(f"exp_{number}", ExperimentSpec(variants, Metric(Measure.QUALITY, 0.1)), NOW)


def request(number: int = 1, content: str = "") -> Request:
    return Request.of(f"req_{number}", content)


class TestExperimentStore:
    async def test_gives_back_what_was_stored(self, stores: Stores) -> None:
        made = await stores.experiments.create(experiment(), request())
        assert await stores.experiments.get("exp_1") == made == await stores.experiments.find(request())
        started = await stores.experiments.save(made.start(NOW, "key_1"))
        report = analyse(started, Evidence({}, {started.spec.primary: {}}, {}, {}), NOW)
        concluded = replace(started.conclude(NOW, report, "enough", early=False), past=(report, report))
        ended = await stores.experiments.save(concluded)
        assert (ended.revision, ended.report) == (2, report)
        assert await stores.experiments.get("exp_1") == ended

    async def test_deleted_with_its_prompts(self, stores: Stores) -> None:
        store, one = stores.experiments, ReplayPrompt(TextPrompt("a"))
        made = await store.create(experiment(), request(), [one])
        other = await store.create(experiment(2), request(2), [one])
        with pytest.raises(Aborted):
            await store.delete(replace(made, revision=7))
        assert await store.prompts("exp_1", 0, 10) == [one]
        await store.delete(made)
        with pytest.raises(NotFound):
            await store.get("exp_1")
        assert list(await store.prompts("exp_1", 0, 10)) == []
        assert await store.find(request()) is None
        assert (await store.get("exp_2"), await store.prompts("exp_2", 0, 10)) == (other, [one])
        with pytest.raises(Aborted):
            await store.delete(made)

    async def test_with_a_named_metric_and_a_price(self, stores: Stores) -> None:
        named = Metric(Measure.NAMED, 5.0, "accepted_chars", Direction.MORE_IS_BETTER)
        spec = replace(experiment().spec, guardrails=(named, Metric(Measure.COST)), price=TokenPrice(0.5, 2.0))
        made = await stores.experiments.create(replace(experiment(), spec=spec), request())
        assert (await stores.experiments.get("exp_1")).spec == made.spec == spec

    async def test_prompts_of_a_replay_until_it_ends(self, stores: Stores) -> None:
        chat = ChatPrompt((Message("user", "ä 'b'"),))
        tokens, problem = TokenPrompt([1, 2]), ProblemRef("composed/test", "p")
        asked = [ReplayPrompt(chat, problem=problem), ReplayPrompt(exchange_id="cmpl_1"), ReplayPrompt(tokens)]
        asked += [ReplayPrompt(TextPrompt(str(number))) for number in range(20)]
        replay = Replay(Sampling(temperature=0.5, logit_bias={7: -1.5}), key_id="key_1")
        spec = replace(experiment().spec, replay=replay, unit=Unit.REQUEST)
        made = replace(experiment(), spec=spec, prompts=23)
        await stores.experiments.create(made, request(), asked)
        await stores.experiments.create(replace(made, id="exp_2"), request(), asked[:1])
        assert await stores.experiments.get("exp_1") == made
        assert await stores.experiments.prompts("exp_1", 0, 3) == asked[:3]
        assert await stores.experiments.prompts("exp_1", 20, 100) == asked[20:]
        assert list(await stores.experiments.prompts("exp_2", 0, 100)) == []
        held = await stores.experiments.save(made.start(NOW).taken("gw_1", NOW, timedelta(minutes=1)))
        assert (await stores.experiments.get("exp_1")).hold == held.hold
        with pytest.raises(Aborted):
            await stores.experiments.save(made.stop(NOW, "too late"))
        assert len(await stores.experiments.prompts("exp_1", 0, 100)) == 23
        await stores.experiments.save(held.stop(NOW, ""))
        assert list(await stores.experiments.prompts("exp_1", 0, 100)) == []

    async def test_what_does_not_exist(self, stores: Stores) -> None:
        with pytest.raises(NotFound):
            await stores.experiments.get("exp_9")
        assert await stores.experiments.find(request(9)) is None
        with pytest.raises(Aborted):
            await stores.experiments.save(experiment(9))

    async def test_a_request_makes_one_experiment(self, stores: Stores) -> None:
        first = await stores.experiments.create(experiment(), request())
        assert await stores.experiments.create(experiment(2), request()) == first
        with pytest.raises(AlreadyExists):
            await stores.experiments.create(experiment(2), request(content="another"))

    async def test_only_who_saw_the_latest_may_write(self, stores: Stores) -> None:
        await stores.experiments.create(experiment(), request())
        await stores.experiments.save(experiment().start(NOW))
        with pytest.raises(Aborted):
            await stores.experiments.save(experiment().stop(NOW, "too late"))

    async def test_active_in_the_order_of_their_starts(self, stores: Stores) -> None:
        for number in (1, 2, 3):
            await stores.experiments.create(experiment(number), request(number))
        await stores.experiments.save(experiment(2).start(NOW))
        later = await stores.experiments.save(experiment(1).start(NOW + timedelta(seconds=1)))
        assert [one.id for one in await stores.experiments.active()] == ["exp_2", "exp_1"]
        await stores.experiments.save(later.stop(NOW, ""))
        assert [one.state for one in await stores.experiments.active()] == [State.RUNNING]

    async def test_lists_newest_first(self, stores: Stores) -> None:
        for number, model in ((1, "a"), (2, "b"), (3, "c")):
            await stores.experiments.create(experiment(number, model), request(number))
        assert [one.id for one in await stores.experiments.page("", 2, None)] == ["exp_3", "exp_2"]
        assert [one.id for one in await stores.experiments.page("", 2, "exp_2")] == ["exp_1"]
        assert [one.id for one in await stores.experiments.page("b", 9, None)] == ["exp_2"]

    async def test_lists_by_name(self, stores: Stores) -> None:
        for number, name in ((1, "Shorter prompts"), (2, "100% shorter"), (3, "")):
            named = replace(experiment(number).spec, display_name=name)
            await stores.experiments.create(replace(experiment(number), spec=named), request(number))

        async def ids(name: str, model: str = "") -> list[str]:
            return [one.id for one in await stores.experiments.page(model, 9, None, name)]

        assert await ids("SHORTER") == ["exp_2", "exp_1"]
        assert await ids("0%") == ["exp_2"]
        assert await ids("shorter", "other") == await ids("longer") == []
        assert await ids("") == ["exp_3", "exp_2", "exp_1"]


def record(number: int, unit: str, variant: str = "a", **changes: object) -> CompletionRecord:
    made = CompletionRecord(
        id=f"cmpl_{number:03}",
        start_time=NOW + timedelta(hours=1),
        version=VersionRef("starter", 1),
        arm=Arm.NONE,
        latency=timedelta(seconds=number),
        completion_tokens=5,
        experiment_id="exp_1",
        variant=variant,
        unit=unit,
    )
    return replace(made, **changes)


def before(number: int, unit: str, score: float, **changes: object) -> CompletionRecord:
    return record(number, unit, "", experiment_id="", start_time=NOW - timedelta(days=1), score=score, **changes)


class TestUnits:
    async def test_sums_over_units(self, stores: Stores) -> None:
        await stores.experiments.create(experiment(), request())
        await stores.completions.append(
            [
                record(1, "u", score=1.0),
                record(2, "u", score=0.5, problem=ProblemRef("composed/test", "p")),
                record(3, "u", error="died"),
                record(4, "v", score=0.25),
                record(5, "w", "b", score=1.0),
                record(6, "w", "", experiment_id="exp_2", score=1.0),
                before(7, "u", 0.5),
                before(8, "u", 1.0),
                before(9, "u", 0.0, arm=Arm.FALLBACK),
                before(10, "u", 0.0, version=VersionRef("other", 1)),
                before(11, "", 0.0),
                before(12, "x", 0.0),
            ]
        )
        log = stores.completions
        assert await log.experiment_units("exp_1") == {"a": UnitCount(2, 4), "b": UnitCount(1, 1)}
        quality = await log.experiment_moments("exp_1", QUALITY, PAST)
        past = Before(1, 2.0, 1.5, 0.75, 0.5625, 1.5, 1.125)
        assert quality["a"] == Moments(2, 3.0, 1.75, 5.0, 2.3125, 3.25, past)
        assert quality["b"] == Moments(1, 1.0, 1.0, 1.0, 1.0, 1.0)
        for measure, total in (
            (Measure.FEEDBACK, 1.25),
            (Measure.TESTS, 0.5),
            (Measure.ERROR_RATE, 1.0),
            (Measure.LATENCY, 7.0),
            (Measure.TOKENS, 15.0),
        ):
            assert (await log.experiment_moments("exp_1", Quantity(measure), PAST))["a"].y == total
        assert await log.experiment_latencies("exp_1", "a") == [
            UnitLatency("u", 1.0),
            UnitLatency("u", 2.0),
            UnitLatency("v", 4.0),
        ]
        for until, units, answers in ((NOW, {}, []), (NOW + timedelta(hours=1), {"b": UnitCount(1, 1)}, [5.0])):
            found = await log.experiment_units("exp_1", until)
            assert {name: count for name, count in found.items() if name == "b"} == units
            assert [one.latency for one in await log.experiment_latencies("exp_1", "b", until)] == answers
            by_then = await log.experiment_moments("exp_1", QUALITY, PAST, until)
            assert ("b" in by_then) == bool(units)
        assert await log.experiment_reached("exp_1", None, 2) == {"a": NOW + timedelta(hours=1)}
        recent = await log.recent_moments("starter", QUALITY, Unit.USER, PAST)
        assert recent == Moments(2, 3.0, 1.5, 5.0, 2.25, 3.0)
        assert (await log.recent_moments("starter", QUALITY, Unit.REQUEST, PAST)).units == 4
        assert await log.recent_moments("starter", QUALITY, Unit.KEY, PAST) == Moments()
        assert (await log.recent_moments("nothing", QUALITY, Unit.USER, PAST)).units == 0

    async def test_who_left_and_when_units_had_come(self, stores: Stores) -> None:
        await stores.experiments.create(experiment(), request())
        log, times = stores.completions, [NOW + timedelta(minutes=number) for number in range(6)]
        await log.append(
            [
                record(1, "u", start_time=times[3], score=1.0),
                record(2, "u", start_time=times[1]),
                record(3, "v", start_time=times[2], left=True),
                record(4, "w", start_time=times[4], score=0.5),
                record(5, "x", "b", start_time=times[5], left=True),
            ]
        )
        left = Quantity(Measure.LEFT)
        found = await log.experiment_moments("exp_1", left, PAST)
        assert {name: (one.units, one.x, one.y) for name, one in found.items()} == {"a": (3, 4, 1), "b": (1, 1, 1)}
        assert await log.experiment_reached("exp_1", None, 1) == {"a": times[1], "b": times[5]}
        assert await log.experiment_reached("exp_1", None, 3) == {"a": times[4]}
        assert await log.experiment_reached("exp_1", QUALITY, 1) == {"a": times[3]}
        assert await log.experiment_reached("exp_1", QUALITY, 2) == {"a": times[4]}
        assert await log.experiment_reached("exp_2", None, 1) == {}

    async def test_latencies_are_drawn_by_what_is_random_in_an_id(self, stores: Stores) -> None:
        await stores.experiments.create(experiment(), request())
        await stores.completions.append(
            [
                record(number, "u", id=f"cmpl_{number:010}{of_it}")
                for number, of_it in enumerate(("N4", "A9", "Z0", "C7"))
            ]
        )
        drawn = await stores.completions.experiment_latencies("exp_1", "a")
        assert [one.latency for one in drawn] == [1.0, 3.0, 0.0, 2.0]

    async def test_products_of_units_that_two_variants_share(self, stores: Stores) -> None:
        await stores.experiments.create(experiment(), request())
        log = stores.completions
        await log.append(
            [
                record(1, "u", score=1.0),
                record(2, "u", score=0.5),
                record(3, "v", score=0.25),
                record(4, "w", score=1.0),
                record(5, "u", "b", score=0.5),
                record(6, "v", "b", score=1.0),
                record(7, "v", "b", score=0.5),
                record(8, "w", "b"),
                record(9, "u", "c"),
                record(10, "u", "b", experiment_id="exp_2", score=1.0),
            ]
        )
        # b's counts and totals of u and v are 1, 0.5 and 2, 1.5; a's are 2, 1.5 and 1, 0.25
        assert await log.experiment_products("exp_1", QUALITY, "a") == {"b": Products(2, 4.0, 2.0, 2.5, 1.125)}
        assert await log.experiment_products("exp_1", QUALITY, "nothing") == {}
        assert await log.experiment_products("exp_1", QUALITY, "a", NOW) == {}

    async def test_sums_of_named_metrics_and_of_cost(self, stores: Stores) -> None:
        await stores.experiments.create(experiment(), request())
        log, name = stores.completions, "accepted.chars-1"
        records = [record(1, "u"), record(2, "u"), record(3, "v", error="died"), record(4, "v"), record(5, "w", "b")]
        await log.append(
            [replace(one, prompt_tokens=10) for one in records]
            + [record(6, "u", "", experiment_id="", start_time=NOW - timedelta(days=1))]
        )
        given = {1: {name: 2.0, "other": 9.0}, 2: {name: 4}, 3: {"other": 1.0}, 4: {name: -1e12}, 6: {name: 3.0}}
        for number, metrics in given.items():
            await log.add_metrics(f"cmpl_{number:03}", metrics, Request.of(""))
        found = await log.experiment_moments("exp_1", Quantity(Measure.NAMED, name), PAST)
        assert set(found) == {"a"}
        assert (found["a"].units, found["a"].x, found["a"].y) == (2, 3.0, 6.0 - 1e12)
        assert found["a"].before == Before(1, 2.0, 6.0, 3.0, 9.0, 6.0, 18.0)
        recent = await log.recent_moments("starter", Quantity(Measure.NAMED, name), Unit.USER, PAST)
        assert recent == Moments(1, 1.0, 3.0, 1.0, 9.0, 3.0)
        cost = Quantity(Measure.COST, price=TokenPrice(1e5, 2e5))
        found = await log.experiment_moments("exp_1", cost, PAST)
        assert {name: (one.units, one.x, one.y) for name, one in found.items()} == {
            "a": (2, 3.0, pytest.approx(6.0)),
            "b": (1, 1.0, pytest.approx(2.0)),
        }

    async def test_records_of_an_experiment_under_way_are_kept(self, stores: Stores) -> None:
        await stores.experiments.create(experiment(), request())
        started = await stores.experiments.save(experiment().start(NOW))
        await stores.completions.append([record(1, "u"), before(2, "u", 1.0)])
        later = NOW + timedelta(days=40)
        assert await stores.completions.forget_records(later) == 1
        assert (await stores.completions.get("cmpl_001")).unit == "u"
        with pytest.raises(NotFound):
            await stores.completions.get("cmpl_002")
        await stores.experiments.save(started.stop(NOW, ""))
        assert await stores.completions.forget_records(later) == 1
        with pytest.raises(NotFound):
            await stores.completions.get("cmpl_001")
