"""Releases from their creation to their end, over traffic, with a clock set by hand."""

import asyncio
from datetime import timedelta
from unittest.mock import AsyncMock

import pytest

from gateway_service.domain.ports import GateResult
from gateway_service.domain.releases.controller import ControlOptions, ReleaseController
from gateway_service.domain.releases.release import Bounds, Release, ReleaseSpec, Stage, State
from gateway_service.domain.traffic.record import Arm
from ratchet_kit.errors import (
    DeadlineExceeded,
    FailedPrecondition,
    Internal,
    RatchetError,
    Unauthenticated,
    Unavailable,
)
from ratchet_kit.names import CHAMPION, VersionRef

from ..world import World

HALF_THEN_ALL = (Stage(50, timedelta(seconds=60), 30), Stage(100, timedelta(seconds=60), 30))


async def traffic(world: World, requests: int = 100) -> None:
    for n in range(requests):
        await world.ask(key=f"user-{n}")
    await world.gateway.recorder.flush()


async def score(world: World, scores: dict[str, float]) -> None:
    """Scores what is unscored, by the version that answered."""
    for record in list(world.completions.records.values()):
        if record.score is None and not record.error and str(record.version) in scores:
            await world.gateway.feedback.score(record.id, scores[str(record.version)])


async def test_a_good_candidate_takes_over_step_by_step(world: World) -> None:
    release = await world.release()
    assert release.state is State.PREPARING
    release = await world.until_progressing(release)
    percents = [release.percent]
    while release.active:
        await traffic(world, 3000 if release.percent == 1 else 700)
        world.clock.advance(timedelta(seconds=61))
        await world.tick()
        release = await world.releases.get(release.id)
        percents.append(release.percent)

    # A stage may need a second round: by chance its share of the keys is small.
    assert list(dict.fromkeys(percents)) == [1, 5, 25, 50, 100]
    assert release.state is State.SUCCEEDED
    assert world.registry.promotions == [(VersionRef("starter", 2), "gate_2")]
    assert (await world.ask()).version == VersionRef("starter", 2)

    assert "starter@1" in world.engine.policies, "requests on their way still need it"
    world.clock.advance(timedelta(seconds=31))
    await world.tick()
    assert set(world.engine.policies) == {"starter@2"}
    assert await world.releases.unfinished() == []


async def progressing(world: World, stages=HALF_THEN_ALL, bounds: Bounds = Bounds()) -> Release:
    return await world.until_progressing(await world.release(stages, bounds))


async def ended(world: World, release: Release) -> Release:
    await world.tick()
    release = await world.releases.get(release.id)
    assert not release.active
    return release


async def test_rolls_back_when_the_candidate_fails_and_no_answer_does(world: World) -> None:
    def fail_the_candidate(name: str) -> None:
        if name == "starter@2":
            raise Unavailable("the engine died")

    release = await progressing(world)
    world.engine.before_answer = fail_the_candidate
    await traffic(world)  # raises if an answer fails
    release = await ended(world, release)
    assert release.state is State.ROLLED_BACK
    assert "error rate 100.0%" in release.events[-1].reason
    assert (await world.ask(key="user-1")).version == VersionRef("starter", 1)
    arms = [record.arm for record in world.completions.records.values()]
    assert arms.count(Arm.FALLBACK) == arms.count(Arm.CANDIDATE) > 30

    world.clock.advance(timedelta(seconds=31))
    await world.tick()
    assert set(world.engine.policies) == {"starter@1"}


async def test_rolls_back_when_the_candidate_is_slow(world: World) -> None:
    release = await progressing(world)
    seconds = {"starter@1": 0.1, "starter@2": 0.5}
    world.engine.before_answer = lambda name: world.clock.advance(timedelta(seconds=seconds[name]))
    await traffic(world)
    release = await ended(world, release)
    assert release.state is State.ROLLED_BACK
    assert "p95 latency 0.50 s against 0.10 s" in release.events[-1].reason


async def test_rolls_back_when_the_candidate_answers_worse(world: World) -> None:
    release = await progressing(world)
    await traffic(world)
    await score(world, {"starter@1": 0.8, "starter@2": 0.1})
    release = await ended(world, release)
    assert release.state is State.ROLLED_BACK
    assert "quality 0.100" in release.events[-1].reason


async def test_rolls_back_at_the_last_stage_against_what_the_baseline_was(world: World) -> None:
    release = await progressing(world)
    await traffic(world)
    await score(world, {"starter@1": 0.8, "starter@2": 0.8})
    world.clock.advance(timedelta(seconds=61))
    await world.tick()
    assert (await world.releases.get(release.id)).percent == 100
    await traffic(world)
    await score(world, {"starter@2": 0.1})
    assert (await ended(world, release)).state is State.ROLLED_BACK
    assert world.registry.aliases["starter", CHAMPION] == 1


async def test_fails_when_the_candidate_cannot_be_loaded(world: World) -> None:
    world.engine.refuse_sources = {"starter/2": "config.json is missing"}
    release = await world.release()
    for _ in range(3):
        await world.tick()
        await asyncio.sleep(0.01)
    release = await world.releases.get(release.id)
    assert (release.state, release.percent) == (State.FAILED, 0)
    assert "config.json is missing" in release.failure.message
    assert (await world.ask()).version.number == 1


async def test_fails_when_the_candidate_is_not_ready_in_time(world: World) -> None:
    world.engine.loads_at_once = False
    release = await world.release()
    await world.tick()
    assert (await world.releases.get(release.id)).state is State.PREPARING
    world.clock.advance(timedelta(minutes=11))
    await world.tick()
    assert (await world.releases.get(release.id)).state is State.FAILED


async def test_goes_on_after_a_restart(world: World) -> None:
    release = await progressing(world)
    await traffic(world)
    await world.start()
    world.clock.advance(timedelta(seconds=61))
    await world.tick()
    assert (await world.releases.get(release.id)).percent == 100


async def test_two_controllers_take_one_step(world: World) -> None:
    release = await progressing(world)
    await traffic(world)
    world.clock.advance(timedelta(seconds=61))
    async with world.another() as other:
        await asyncio.gather(world.gateway.controller.tick(), other.controller.tick())
    assert (await world.releases.get(release.id)).percent == 100
    assert [event.percent for event in (await world.releases.get(release.id)).events] == [50, 100]


async def test_waits_while_the_registry_is_away(world: World) -> None:
    release = await progressing(world, stages=(Stage(100, timedelta(0), 10),))
    await traffic(world)
    world.registry.refuse_promotion = Unavailable("registry is away")
    await world.tick()
    assert (await world.releases.get(release.id)).active
    world.registry.refuse_promotion = None
    assert (await ended(world, release)).state is State.SUCCEEDED


async def test_fails_when_the_registry_refuses_the_new_champion(world: World) -> None:
    release = await progressing(world, stages=(Stage(100, timedelta(0), 10),))
    await traffic(world)
    world.registry.refuse_promotion = FailedPrecondition("the champion is another by now")
    release = await ended(world, release)
    assert release.state is State.FAILED
    assert "another by now" in release.failure.message
    assert (await world.ask()).version.number == 1


@pytest.mark.parametrize("fault", [DeadlineExceeded("late"), Internal("a bug"), Unauthenticated("another token")])
async def test_a_fault_of_the_platform_does_not_end_a_release(world: World, fault: RatchetError) -> None:
    release = await world.release()
    world.registry.away = fault
    for _ in range(3):
        await world.tick()
        await asyncio.sleep(0.01)
    assert (await world.releases.get(release.id)).state is State.PREPARING
    world.registry.away = None
    assert (await world.until_progressing(release)).state is State.PROGRESSING


async def with_a_newer_release(world: World) -> tuple[Release, Release]:
    """A release whose loser is due to be unloaded, and a newer one of another model."""
    old = await progressing(world)
    await world.gateway.releases.roll_back(old.id, "enough")
    world.clock.advance(timedelta(seconds=31))
    world.registry.versions["other"] = 2
    world.registry.aliases["other", CHAMPION] = 1
    refs = VersionRef("other", 2), VersionRef("other", 1)
    world.registry.gates["gate_other"] = GateResult("gate_other", *refs, True, "0.2 better")
    spec = ReleaseSpec(refs[0], "gate_other", HALF_THEN_ALL, Bounds())
    return old, (await world.gateway.releases.create("", spec)).release


@pytest.mark.parametrize("fault", [DeadlineExceeded("late"), Internal("a bug"), LookupError("a bug of ours")])
async def test_a_release_that_cannot_be_ended_holds_up_no_other(world: World, fault: Exception) -> None:
    old, new = await with_a_newer_release(world)
    unload, world.engine.unload = world.engine.unload, AsyncMock(side_effect=fault)
    assert (await world.until_progressing(new)).state is State.PROGRESSING
    assert (await world.releases.get(old.id)).retire_time is None
    world.engine.unload = unload
    await world.tick()
    assert (await world.releases.get(old.id)).retire_time is not None


async def test_a_release_whose_step_takes_long_holds_up_no_other(world: World) -> None:
    old, new = await with_a_newer_release(world)
    slow = ReleaseController(
        world.releases,
        world.completions,
        world.gateway.serving,
        world.registry,
        world.clock,
        ControlOptions(patience=timedelta(milliseconds=20)),
    )
    go_on, unload = asyncio.Event(), world.engine.unload

    async def slowly(name: str) -> None:
        await go_on.wait()
        await unload(name)

    world.engine.unload = slowly
    for _ in range(3):
        await slow.tick()
        await world.gateway.serving.ensure(new.candidate)
    assert (await world.releases.get(new.id)).state is State.PROGRESSING
    go_on.set()
    await asyncio.sleep(0.01)
    assert (await world.releases.get(old.id)).retire_time is not None
