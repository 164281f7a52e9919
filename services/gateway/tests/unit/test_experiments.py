"""Experiments through a whole gateway in memory."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from scipy import stats

from gateway_service.domain.experiments.experiment import (
    Analysis,
    Experiment,
    ExperimentSpec,
    Metric,
    State,
    Variant,
)
from gateway_service.domain.experiments.plan import PlanRequest
from gateway_service.domain.keys.caller import set_caller
from gateway_service.domain.keys.key import ApiKey, Scope
from gateway_service.domain.statistics.conclusions import Standing
from gateway_service.domain.traffic.feedback import FeedbackRequest, Score
from gateway_service.domain.traffic.measure import Measure
from gateway_service.domain.traffic.record import Arm, Unit
from ratchet_kit.errors import (
    AlreadyExists,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    NotFound,
    PermissionDenied,
)
from ratchet_kit.names import BareModel, VersionRef

from .. import doubles
from ..world import World

CONTROL, TREATMENT = Variant("control", VersionRef("starter", 1)), Variant("treatment", VersionRef("starter", 2))
SPEC = ExperimentSpec((CONTROL, TREATMENT), Metric(Measure.QUALITY, 0.05), (Metric(Measure.ERROR_RATE),))
WEIGHTS = {"a": 1.0, "b": 1.0, "c": 2.0}


async def started(world: World, spec: ExperimentSpec = SPEC) -> Experiment:
    experiment = await world.gateway.experiments.create("", spec)
    return await world.gateway.experiments.start(experiment.id)


async def answers(world: World, users: int, scores: dict[int, float], requests: int = 1) -> None:
    """Every user asks, and scores what each version gave."""
    for user in range(users):
        for _ in range(requests):
            answer = await world.ask(key=f"user {user}")
            await world.gateway.feedback.give(
                FeedbackRequest(answer.id, Score(min(1.0, scores[answer.version.number] + user % 3 / 10)))
            )


class TestLife:
    async def test_draft_running_paused_running_concluded(self, world: World) -> None:
        experiments = world.gateway.experiments
        made = await experiments.create("", SPEC, "key_1")
        assert (made.state, made.report, made.actor) == (State.DRAFT, None, "key_1")
        running = await experiments.start(made.id, "key_2")
        assert running.state is State.RUNNING
        assert running.report is not None
        assert (await experiments.start(made.id)).revision == running.revision
        paused = await experiments.pause(made.id, "a holiday")
        assert (paused.state, paused.events[-1].reason) == (State.PAUSED, "a holiday")
        again = await experiments.start(made.id)
        assert again.start_time == running.start_time
        ended = await experiments.conclude(made.id, "enough")
        assert (ended.state, ended.end_time) == (State.CONCLUDED, world.clock.now())
        assert (await experiments.get(made.id)).report == ended.report
        for change in (experiments.pause, experiments.stop):
            with pytest.raises(FailedPrecondition):
                await change(made.id, "")

    async def test_stopped_it_has_no_report(self, world: World) -> None:
        experiment = await started(world)
        ended = await world.gateway.experiments.stop(experiment.id, "a mistake")
        assert (ended.state, ended.report) == (State.STOPPED, None)
        with pytest.raises(FailedPrecondition):
            await world.gateway.experiments.conclude(experiment.id, "")

    async def test_not_concluded_before_its_minimum(self, world: World) -> None:
        experiment = await started(world, replace(SPEC, min_duration=timedelta(days=7)))
        with pytest.raises(FailedPrecondition, match="to last 7 days"):
            await world.gateway.experiments.conclude(experiment.id, "")
        ended = await world.gateway.experiments.conclude(experiment.id, "it hurts", early=True)
        assert ended.state is State.CONCLUDED

    async def test_deleted_unless_it_is_under_way(self, world: World) -> None:
        experiments = world.gateway.experiments
        experiment = await started(world)
        with pytest.raises(FailedPrecondition, match="is under way: stop or conclude it first"):
            await experiments.delete(experiment.id)
        await experiments.pause(experiment.id, "")
        with pytest.raises(FailedPrecondition):
            await experiments.delete(experiment.id)
        await experiments.stop(experiment.id, "")
        await experiments.delete(experiment.id)
        with pytest.raises(NotFound):
            await experiments.get(experiment.id)
        draft = await experiments.create("", SPEC)
        await experiments.delete(draft.id)
        assert (await experiments.page("", 10, "")).items == []

    async def test_one_whose_version_was_deleted_meanwhile_cannot_start(self, world: World) -> None:
        draft = await world.gateway.experiments.create("", SPEC)
        world.registry.versions["starter"] = 1
        with pytest.raises(FailedPrecondition, match="variant treatment: version starter@2 does not exist"):
            await world.gateway.experiments.start(draft.id)

    async def test_a_request_makes_one(self, world: World) -> None:
        first = await world.gateway.experiments.create("once", SPEC)
        assert await world.gateway.experiments.create("once", SPEC) == first
        with pytest.raises(AlreadyExists):
            await world.gateway.experiments.create("once", replace(SPEC, alpha=0.1))
        assert [one.id for one in (await world.gateway.experiments.page("starter", 10, "")).items] == [first.id]

    async def test_every_fault_is_named(self, world: World) -> None:
        wrong = replace(
            SPEC,
            variants=(CONTROL, replace(CONTROL, weight=0.0), Variant("x", VersionRef("other", 1))),
            guardrails=(SPEC.primary,),
            traffic=0.0,
            analysis=Analysis.FIXED,
            planned_units=100,
        )
        with pytest.raises(InvalidArgument) as found:
            await world.gateway.experiments.create("", wrong)
        assert {violation.field for violation in found.value.violations} == {
            "spec.variants[1].weight",
            "spec.variants[2].version.model",
            "spec.variants",
            "spec.guardrails",
            "spec.traffic",
            "spec.min_units",
            "spec.planned_units",
        }
        with pytest.raises(NotFound):
            await world.gateway.experiments.create(
                "", replace(SPEC, variants=(CONTROL, Variant("x", VersionRef("starter", 9))))
            )


class TestTraffic:
    async def test_a_user_stays_with_one_variant_at_every_gateway(self, world: World) -> None:
        experiment = await started(world)
        async with world.another() as other:
            for user in range(30):
                assigned = await world.ask(key=f"user {user}")
                route = await other.router.route(BareModel("starter"), f"user {user}")
                assert route.version == assigned.version == (await world.ask(key=f"user {user}")).version
        records = await world.records()
        assert {record.experiment_id for record in records} == {experiment.id}
        assert {(record.variant, record.version.number) for record in records} == {("control", 1), ("treatment", 2)}
        assert len({record.unit for record in records}) == 30

    async def test_assignment_is_uniform(self, world: World) -> None:
        thirds = tuple(Variant(name, VersionRef("starter", i + 1), w) for i, (name, w) in enumerate(WEIGHTS.items()))
        await started(world, replace(SPEC, variants=thirds, traffic=0.5))
        found: Counter[str] = Counter()
        for user in range(6000):
            route = await world.gateway.router.route(BareModel("starter"), f"user {user}")
            found[route.variant] += 1
        expected = [3000, *(3000 * weight / 4 for weight in WEIGHTS.values())]
        assert stats.chisquare([found[name] for name in ("", *WEIGHTS)], expected).pvalue > 0.001

    async def test_what_has_no_unit_is_not_in_it(self, world: World) -> None:
        await started(world)
        assert (await world.ask()).version.number == 1
        assert [record.experiment_id for record in await world.records()] == [""]

    @pytest.mark.parametrize("unit", [Unit.SESSION, Unit.KEY, Unit.REQUEST])
    async def test_other_units(self, world: World, unit: Unit) -> None:
        await started(world, replace(SPEC, unit=unit))
        for number in range(20):
            set_caller(ApiKey(f"key_{number}", "", "", "", frozenset({Scope.ADMIN}), doubles.EPOCH))
            for _ in range(2):
                await world.ask(session=f"session {number}")
        records = await world.records()
        assert {record.variant for record in records} == {"control", "treatment"}
        assert len({record.unit for record in records}) == (40 if unit is Unit.REQUEST else 20)

    async def test_a_unit_is_in_one_experiment(self, world: World) -> None:
        """Of two that meet the older one chooses first; paused, it keeps its units out of the other."""
        older = await started(world, replace(SPEC, traffic=0.5))
        world.clock.advance(timedelta(hours=1))
        newer = await started(world, replace(SPEC, traffic=0.9))

        async def places() -> dict[int, str]:
            router = world.gateway.router
            return {
                user: (await router.route(BareModel("starter"), f"user {user}")).experiment_id for user in range(400)
            }

        both = await places()
        assert Counter(both.values())[older.id] == pytest.approx(200, abs=40)
        assert Counter(both.values())[newer.id] == pytest.approx(180, abs=40)
        await world.gateway.experiments.pause(older.id, "")
        assert await places() == {user: "" if id == older.id else id for user, id in both.items()}

    async def test_one_that_takes_all_leaves_no_room(self, world: World) -> None:
        await started(world)
        with pytest.raises(FailedPrecondition, match="takes all traffic"):
            await started(world)

    async def test_neither_beside_a_release(self, world: World) -> None:
        experiment = await started(world)
        with pytest.raises(FailedPrecondition, match="end it first"):
            await world.release()
        await world.gateway.experiments.stop(experiment.id, "")
        await world.release()
        with pytest.raises(FailedPrecondition, match="release under way"):
            await started(world)

    async def test_a_variant_that_fails_is_answered_by_the_first(self, world: World) -> None:
        await started(world, replace(SPEC, variants=(replace(CONTROL, weight=1e-6), TREATMENT)))

        def fail(name: str) -> None:
            if name == "starter@2":
                raise Internal("broken")

        world.engine.before_answer = fail
        assert (await world.ask(key="somebody")).version.number == 1
        failed, answered = await world.records()
        assert (failed.variant, failed.error) == ("treatment", "broken")
        assert (answered.variant, answered.arm, answered.experiment_id) == ("", Arm.FALLBACK, "")

    async def test_its_versions_may_be_called_by_name(self, world: World) -> None:
        set_caller(ApiKey("key_1", "", "", "", frozenset({Scope.INFERENCE}), doubles.EPOCH))
        with pytest.raises(PermissionDenied):
            await world.ask("starter@2")
        await started(world)
        assert (await world.ask("starter@2")).version.number == 2


class TestReport:
    async def test_better_in_words(self, world: World) -> None:
        experiment = await started(world)
        await answers(world, 120, {1: 0.2, 2: 0.8})
        report = (await world.gateway.experiments.get(experiment.id)).report
        assert report is not None
        first, guardrail, left = report.comparisons
        assert first.standing is Standing.BETTER
        assert first.difference is not None
        assert first.difference.value == pytest.approx(0.6, abs=0.05)
        assert guardrail.standing is left.standing is Standing.UNDECIDED
        assert left.measure is Measure.LEFT  # though nobody asked for it
        assert f"treatment: better in quality: {first.difference.value:+.4g} (" in report.conclusion
        assert "To release starter@2: ratchet gate --model starter@2; ratchet deploy" in report.conclusion
        assert sum(variant.units for variant in report.variants) == 120

    async def test_too_few_units_say_nothing(self, world: World) -> None:
        experiment = await started(world)
        await answers(world, 20, {1: 0.0, 2: 0.8}, requests=20)
        report = (await world.gateway.experiments.get(experiment.id)).report
        assert report is not None
        assert [one.standing for one in report.comparisons] == [Standing.UNDECIDED] * 3
        assert "too few units" in report.conclusion

    async def test_a_fixed_horizon_is_kept(self, world: World) -> None:
        spec = replace(SPEC, analysis=Analysis.FIXED, min_units=40)
        experiment = await started(world, spec)
        await answers(world, 60, {1: 0.2, 2: 0.8})
        early = (await world.gateway.experiments.get(experiment.id)).report
        await answers(world, 120, {1: 0.2, 2: 0.8})
        late = (await world.gateway.experiments.get(experiment.id)).report
        assert early is not None
        assert late is not None
        assert (early.mature, early.comparisons[0].standing) == (False, Standing.UNDECIDED)
        assert (late.mature, late.comparisons[0].standing) == (True, Standing.BETTER)

    async def test_what_it_showed_earlier(self, world: World) -> None:
        experiments = world.gateway.experiments
        experiment = await started(world)
        for _ in range(2):
            world.clock.advance(timedelta(hours=1))
            await answers(world, 120, {1: 0.2, 2: 0.8})
        world.clock.advance(timedelta(hours=1))
        assert (await experiments.get(experiment.id)).past == ()
        shown = await experiments.get(experiment.id, points=5)  # each half hour
        assert experiment.start_time is not None
        assert [one.create_time - experiment.start_time for one in shown.past] == [
            timedelta(minutes=30 * number) for number in range(1, 6)
        ]
        requests = [sum(variant.requests for variant in one.variants) for one in shown.past]
        assert requests == [0, 120, 120, 240, 240]
        assert shown.past[0].comparisons[0].difference is None
        assert shown.report is not None
        assert shown.past[-1].comparisons == shown.report.comparisons
        with pytest.raises(InvalidArgument, match="points"):
            await experiments.get(experiment.id, points=101)

    async def test_a_concluded_one_keeps_them(self, world: World) -> None:
        experiments = world.gateway.experiments
        experiment = await started(world)
        await answers(world, 120, {1: 0.2, 2: 0.8})
        world.clock.advance(timedelta(hours=1))
        ended = await experiments.conclude(experiment.id, "enough")
        world.completions.records.clear()
        kept = await experiments.get(experiment.id, points=5)
        assert len(kept.past) == 24
        assert kept.past[-1].comparisons == kept.report.comparisons
        assert (ended.past, (await experiments.get(experiment.id)).past) == ((), ())
        assert [one.past for one in (await experiments.page("starter", 10, "")).items] == [()]

    async def test_a_broken_sample_ratio_is_an_alarm(self, world: World) -> None:
        experiment = await started(world)
        await answers(world, 120, {1: 0.2, 2: 0.8})
        control = [record for record in await world.records() if record.variant == "control"]
        kept = sorted({record.unit for record in control})[:2]
        for record in control:
            if record.unit not in kept:
                del world.completions.records[record.id]
        report = (await world.gateway.experiments.get(experiment.id)).report
        assert report is not None
        assert report.sample_ratio_p_value < 0.001
        assert report.conclusion.startswith("no verdict")

    async def test_the_past_of_a_user_narrows_the_interval(self, world: World) -> None:
        async def ask(users: range) -> None:
            for user in users:
                answer = await world.ask(key=f"user {user}")
                shift = 0.1 * (answer.version.number == 2)
                await world.gateway.feedback.give(FeedbackRequest(answer.id, Score(user % 9 / 10 + shift)))

        for users in (range(100), range(100, 200)):
            if users.start == 0:
                await ask(users)  # before the experiment
            world.clock.advance(timedelta(hours=1))
            experiment = await started(world)
            await ask(users)
            ended = await world.gateway.experiments.conclude(experiment.id, "")
            assert ended.report is not None
            gap = ended.report.comparisons[0].difference
            assert gap is not None
            if users.start == 0:
                with_past = gap.high - gap.low
        assert with_past < 0.3 * (gap.high - gap.low)


class TestPlan:
    async def test_from_numbers(self, world: World) -> None:
        request = PlanRequest("starter", Measure.QUALITY, 0.05, deviation=0.5, units_per_day=1000, traffic=0.5)
        plan = await world.gateway.experiments.plan(request)
        # statsmodels 0.14: 2 * TTestIndPower().solve_power(0.1, alpha=0.025, power=0.8), with who left beside quality
        assert (plan.fixed_units, plan.fixed_days) == (3806, 3806 / 500)
        assert plan.sequential_units > plan.fixed_units
        more = await world.gateway.experiments.plan(replace(request, guardrails=2))
        assert more.fixed_units > plan.fixed_units
        alone = await world.gateway.experiments.plan(replace(request, measure=Measure.LEFT))
        assert alone.fixed_units == 3142
        large = await world.gateway.experiments.plan(replace(request, effect=5.0))
        assert large.fixed_units == 40  # fewer than 20 of a variant show nothing

    async def test_from_the_traffic_of_the_last_days(self, world: World) -> None:
        request = PlanRequest("starter", Measure.QUALITY, 0.05)
        with pytest.raises(FailedPrecondition, match="give deviation"):
            await world.gateway.experiments.plan(request)
        await answers(world, 70, {1: 0.2})
        world.clock.advance(timedelta(hours=1))
        plan = await world.gateway.experiments.plan(request)
        assert plan.units_per_day == 10
        assert plan.deviation == pytest.approx(0.09, abs=0.05)

    async def test_every_fault_is_named(self, world: World) -> None:
        with pytest.raises(InvalidArgument) as found:
            await world.gateway.experiments.plan(
                PlanRequest("starter", Measure.LATENCY_P95, 0.0, weights=(1.0,), guardrails=11)
            )
        assert {one.field for one in found.value.violations} == {"effect", "weights", "deviation", "guardrails"}
