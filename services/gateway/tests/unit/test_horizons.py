"""A fixed horizon: what is known when it is reached decides, once, whoever looks and how often."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from gateway_service.domain.experiments.experiment import (
    Analysis,
    Direction,
    Experiment,
    ExperimentSpec,
    Metric,
    State,
    Variant,
)
from gateway_service.domain.experiments.report import Report
from gateway_service.domain.statistics.conclusions import Standing
from gateway_service.domain.traffic.measure import Measure
from gateway_service.domain.traffic.record import Arm, CompletionRecord
from ratchet_kit.names import VersionRef

from ..world import World

VALUE = Metric(Measure.NAMED, name="value", direction=Direction.MORE_IS_BETTER)
VARIANTS = (Variant("control", VersionRef("starter", 1)), Variant("treatment", VersionRef("starter", 2)))
SPEC = ExperimentSpec(VARIANTS, VALUE, analysis=Analysis.FIXED, min_units=100)


async def started(world: World, spec: ExperimentSpec = SPEC) -> Experiment:
    made = await world.gateway.experiments.create("", spec)
    return await world.gateway.experiments.start(made.id)


async def came(world: World, experiment: Experiment, values: dict[str, list[float]]) -> None:
    """New users of each variant, one after the other."""
    records = []
    for place, pair in enumerate(zip(*values.values(), strict=True)):
        world.clock.advance(timedelta(seconds=1))
        for variant, value in zip(experiment.spec.variants, pair, strict=True):
            records.append(
                CompletionRecord(
                    id=f"cmpl_{len(world.completions.records) + 2 * place:010}{variant.name}",
                    start_time=world.clock.now(),
                    version=variant.version,
                    arm=Arm.NONE,
                    latency=timedelta(seconds=1),
                    metrics={} if np.isnan(value) else {"value": value},
                    experiment_id=experiment.id,
                    variant=variant.name,
                    unit=f"{variant.name} {world.clock.now()}",
                )
            )
    await world.completions.append(records)


async def report(world: World, experiment: Experiment) -> Report:
    found = (await world.gateway.experiments.get(experiment.id)).report
    assert found is not None
    return found


def normal(random: np.random.Generator, number: int, shift: float = 0.0) -> dict[str, list[float]]:
    return {"control": random.normal(0, 1, number).tolist(), "treatment": random.normal(shift, 1, number).tolist()}


async def test_looks_after_the_horizon_decide_nothing(world: World) -> None:
    """The review's exp_fixed_peek.py: of 500 units a variant 4.9 % false alarms at the horizon, 29.6 % by 10,000."""
    experiment, random = await started(world), np.random.default_rng(3)
    await came(world, experiment, normal(random, 100))
    first = await report(world, experiment)
    assert (first.mature, first.horizon_time) == (True, world.clock.now())
    for _ in range(5):
        await came(world, experiment, normal(random, 100, shift=2.0))
        again = await report(world, experiment)
        assert again.comparisons == first.comparisons
        assert again.variants[0].units == 100
    assert [one.later_units for one in again.variants] == [500, 500]
    assert again.conclusion.endswith("1000 users came after the horizon and are not counted")
    ended = await world.gateway.experiments.conclude(experiment.id, "")
    assert ended.report == again


async def test_it_is_where_it_is_whoever_looks_when(world: World) -> None:
    random = np.random.default_rng(4)
    values = normal(random, 400)
    often, never = await started(world, replace(SPEC, traffic=0.5)), await started(world, replace(SPEC, traffic=0.5))
    for number in range(0, 400, 20):
        await came(world, often, {name: of[number : number + 20] for name, of in values.items()})
        seen = await report(world, often)
        assert seen.mature == (number >= 80)
    await came(world, never, values)
    once = await report(world, never)
    assert once.comparisons[0].p_value == pytest.approx(seen.comparisons[0].p_value)
    assert once.horizon_time is not None
    assert [one.units for one in once.variants] == [100, 100]


async def test_it_is_seen_though_nobody_looks(world: World) -> None:
    experiment, random = await started(world), np.random.default_rng(5)
    await came(world, experiment, normal(random, 120))
    await world.gateway.experiments.look_for_horizons()
    records = {id: replace(one, metrics={"value": 9.0}) for id, one in world.completions.records.items()}
    world.completions.records |= records  # feedback that came later
    late = await report(world, experiment)
    assert [one.units for one in late.variants] == [100, 100]
    assert abs(late.variants[0].values[0].value or 0.0) < 1


async def test_units_without_a_value_do_not_count_for_it(world: World) -> None:
    """Of feedback that one user in two gives, the horizon is one of those who gave it."""
    experiment, random = await started(world), np.random.default_rng(6)
    values = {
        name: [one if i % 2 else float("nan") for i, one in enumerate(of)] for name, of in normal(random, 150).items()
    }
    await came(world, experiment, values)
    early = await report(world, experiment)
    assert (early.mature, early.horizon_time) == (False, None)
    assert "75 of at least 100 users of its smallest variant have a value" in early.conclusion
    await came(world, experiment, values)
    late = await report(world, experiment)
    assert late.mature
    assert late.variants[0].values[0].units == 100


async def test_its_minimum_of_time_is_part_of_it(world: World) -> None:
    experiment, random = await started(world, replace(SPEC, min_duration=timedelta(hours=1))), np.random.default_rng(7)
    await came(world, experiment, normal(random, 200))
    assert not (await report(world, experiment)).mature
    world.clock.advance(timedelta(hours=2))
    await came(world, experiment, normal(random, 50, shift=5.0))
    late = await report(world, experiment)
    assert late.horizon_time == experiment.start_time + timedelta(hours=1)  # type: ignore[operator]
    assert [one.units for one in late.variants] == [200, 200]


async def test_what_it_showed_before_and_after(world: World) -> None:
    experiment, random = await started(world), np.random.default_rng(8)
    await came(world, experiment, normal(random, 300, shift=3.0))
    shown = await world.gateway.experiments.get(experiment.id, points=5)  # each 50 s
    assert [one.mature for one in shown.past] == [False, True, True, True, True]
    assert [one.comparisons[0].standing for one in shown.past] == [Standing.UNDECIDED, *[Standing.BETTER] * 4]


async def test_ended_before_it_says_nothing(world: World) -> None:
    experiment, random = await started(world), np.random.default_rng(9)
    await came(world, experiment, normal(random, 50, shift=5.0))
    ended = await world.gateway.experiments.conclude(experiment.id, "", early=True)
    assert ended.state is State.CONCLUDED
    assert ended.report is not None
    assert ended.report.comparisons[0].standing is Standing.UNDECIDED
