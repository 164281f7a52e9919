"""Releases from their creation to their end, over traffic, with a clock set by hand."""

import asyncio
import random
from contextlib import suppress
from datetime import timedelta
from unittest.mock import AsyncMock

import pytest
from prometheus_client import REGISTRY

from gateway_service.domain.completions.completion import CompletionRequest
from gateway_service.domain.ports import GateResult
from gateway_service.domain.releases.controller import ControlOptions, ReleaseController
from gateway_service.domain.releases.evidence import STEP_WINDOW
from gateway_service.domain.releases.release import Bounds, Release, ReleaseSpec, Stage, State, Unproven
from gateway_service.domain.traffic.feedback import FeedbackRequest, Score
from gateway_service.domain.traffic.record import Arm
from ratchet_kit.errors import (
    DeadlineExceeded,
    FailedPrecondition,
    Internal,
    RatchetError,
    Unauthenticated,
    Unavailable,
)
from ratchet_kit.names import CHAMPION, ModelRef, VersionRef
from ratchet_policies import Policy, PolicySpec, TextPrompt

from ..world import World

HALF_THEN_ALL = (Stage(50, timedelta(seconds=60), 30), Stage(100, timedelta(seconds=60), 30))


def read(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"ratchet_gateway_{name}", labels) or 0.0


async def traffic(world: World, requests: int = 100) -> None:
    for n in range(requests):
        await world.ask(key=f"user-{n}")
    await world.gateway.recorder.flush()


async def score(world: World, scores: dict[str, float]) -> None:
    """Scores what is unscored, by the version that answered."""
    for record in list(world.completions.records.values()):
        if record.score is None and not record.error and str(record.version) in scores:
            await world.gateway.feedback.give(FeedbackRequest(record.id, Score(scores[str(record.version)])))


async def test_a_good_candidate_takes_over_step_by_step(world: World) -> None:
    release = await world.release()
    assert release.state is State.PREPARING
    release = await world.until_progressing(release)
    percents, shown = [release.percent], list[float]()
    ended = read("releases_ended_total", model="starter", state="succeeded")
    while release.active:
        await traffic(world, 3000 if release.percent == 1 else 700)
        world.clock.advance(timedelta(seconds=61))
        await world.tick()
        release = await world.releases.get(release.id)
        percents.append(release.percent)
        shown.append(read("release_percent", model="starter", version="2"))

    # A stage may need a second round: by chance its share of the keys is small.
    assert list(dict.fromkeys(percents)) == [1, 5, 25, 50, 95, 100]
    assert list(dict.fromkeys(shown)) == [1, 5, 25, 50, 95]
    await world.tick()
    assert read("release_percent", model="starter", version="2") == 0
    assert read("releases_ended_total", model="starter", state="succeeded") == ended + 1
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
    for _ in range(2):  # promoting is a step of its own
        await world.tick()
    release = await world.releases.get(release.id)
    assert not release.active
    return release


@pytest.mark.parametrize("breaks_off", [False, True])
async def test_rolls_back_when_the_candidate_fails_and_no_answer_does(world: World, breaks_off: bool) -> None:
    def fail_the_candidate(name: str) -> None:
        if name == "starter@2":
            raise Unavailable("the engine died")

    release = await progressing(world)
    if breaks_off:
        world.engine.breaks_off_after = {"starter@2": 0}
    else:
        world.engine.before_answer = fail_the_candidate
    await traffic(world)  # raises if an answer fails
    release = await ended(world, release)
    assert release.state is State.ROLLED_BACK
    assert "error rate 100.0 %" in release.events[-1].reason
    assert (await world.ask(key="user-1")).version == VersionRef("starter", 1)
    arms = [record.arm for record in world.completions.records.values()]
    assert arms.count(Arm.FALLBACK) == arms.count(Arm.CANDIDATE) > 30

    world.clock.advance(timedelta(seconds=31))
    await world.tick()
    assert set(world.engine.policies) == {"starter@1"}


async def test_rolls_back_when_the_candidate_is_slow(world: World) -> None:
    seconds = {"starter@1": 0.1, "starter@2": 0.5}
    world.engine.before_answer = lambda name: world.clock.advance(timedelta(seconds=seconds[name]))
    await traffic(world)
    release = await progressing(world)
    assert release.baseline_p95 == timedelta(seconds=0.1)
    await traffic(world)
    release = await ended(world, release)
    assert release.state is State.ROLLED_BACK
    assert "longer than 0.15 s, 1.5 times the baseline's p95: 100.0 %" in release.events[-1].reason


async def test_slow_begins_where_a_busy_baseline_had_its_p95(world: World) -> None:
    """It is measured in the stages that leave it half of the requests, and not when it has little to do."""
    seconds = {"starter@1": 0.1, "starter@2": 0.1}
    world.engine.before_answer = lambda name: world.clock.advance(timedelta(seconds=seconds[name]))
    release = await progressing(world)
    assert release.baseline_p95 is None
    await traffic(world, 300)
    world.clock.advance(timedelta(seconds=1))
    await world.tick()
    release = await world.releases.get(release.id)
    assert (release.percent, release.baseline_p95) == (50, timedelta(seconds=0.1))
    seconds["starter@1"] = 0.2
    await traffic(world, 300)
    world.clock.advance(timedelta(seconds=61))
    await world.tick()
    release = await world.releases.get(release.id)
    assert (release.percent, release.baseline_p95) == (95, timedelta(seconds=0.2))
    seconds["starter@1"] = 0.05
    await traffic(world, 700)
    world.clock.advance(timedelta(seconds=61))
    await world.tick()
    release = await world.releases.get(release.id)
    assert (release.state, release.baseline_p95) == (State.PROMOTING, timedelta(seconds=0.2))


async def test_slow_begins_earlier_once_the_baseline_got_quicker_within_a_stage(world: World) -> None:
    seconds = {"starter@1": 1.0, "starter@2": 1.0}
    world.engine.before_answer = lambda name: world.clock.advance(timedelta(seconds=seconds[name]))
    await traffic(world)
    release = await progressing(world, (Stage(40, timedelta(hours=1), 30), *HALF_THEN_ALL))
    assert release.baseline_p95 == timedelta(seconds=1)
    seconds |= {"starter@1": 0.1, "starter@2": 0.4}
    for _ in range(25):
        await traffic(world)
        await world.tick()
    release = await ended(world, release)
    assert release.state is State.ROLLED_BACK
    assert "longer than 0.15 s, 1.5 times the baseline's p95" in release.events[-1].reason


async def test_rolls_back_when_the_candidate_answers_worse(world: World) -> None:
    release = await progressing(world)
    await traffic(world)
    await score(world, {"starter@1": 0.8, "starter@2": 0.1})
    release = await ended(world, release)
    assert release.state is State.ROLLED_BACK
    assert "quality 0.700 lower than the baseline's" in release.events[-1].reason


async def test_at_the_last_stage_a_share_of_the_baseline_is_asked_at_the_same_time(world: World) -> None:
    """Half of all requests fail, whoever answers: nobody is to blame. Then only the candidate's do."""
    release = await progressing(world)
    await traffic(world)
    world.clock.advance(timedelta(seconds=61))
    await world.tick()
    assert (await world.releases.get(release.id)).percent == 95
    chance, broken = random.Random(1), {"starter@1": 0.5, "starter@2": 0.5}

    def fail(name: str) -> None:
        if chance.random() < broken[name]:
            raise Unavailable("the platform is overloaded")

    world.engine.before_answer = fail
    for n in range(1_000):
        with suppress(Unavailable):
            await world.ask(key=f"user-{n}")
    await world.tick()
    assert (await world.releases.get(release.id)).state is State.PROGRESSING
    broken |= {"starter@1": 0.0, "starter@2": 1.0}
    await traffic(world, 1_000)
    assert (await ended(world, release)).state is State.ROLLED_BACK
    assert world.registry.aliases["starter", CHAMPION] == 1


async def test_without_a_share_of_the_baseline_a_step_is_looked_for(world: World) -> None:
    """What breaks under all of the traffic is found; what changes for all at another time is not laid at its door."""
    failing: set[str] = set()

    def fail(name: str) -> None:
        if name in failing:
            raise Unavailable("the platform is overloaded")

    world.engine.before_answer = fail
    for breaks_at_once in (False, True):
        stages = (Stage(50, timedelta(seconds=60), 30), Stage(100, timedelta(minutes=20), 30))
        release = await world.until_progressing(await world.release(stages, baseline_percent=0))
        await traffic(world)
        world.clock.advance(timedelta(seconds=61))
        await world.tick()
        assert (await world.releases.get(release.id)).percent == 100
        if not breaks_at_once:
            await traffic(world)
            world.clock.advance(STEP_WINDOW)
        failing.add("starter@2")
        await traffic(world, 300)
        world.clock.advance(timedelta(seconds=61))
        await world.tick()
        failing.clear()
        is_back = (await world.releases.get(release.id)).state is State.ROLLED_BACK
        assert is_back == breaks_at_once
        await world.gateway.releases.roll_back(release.id, "enough")
        world.clock.advance(timedelta(seconds=61))
        await world.tick()


@pytest.mark.parametrize("share", [0.3, 0.7])
async def test_rolls_back_what_does_not_answer_and_is_left(world: World, share: float) -> None:
    """Callers give up after 5 s, which is no slow answer: the limit is 1.5 times the baseline's 4 s."""
    release = await progressing(world)
    chance, lost = random.Random(1), asyncio.CancelledError()

    def answer(name: str) -> None:
        is_left = name == "starter@2" and chance.random() < share
        world.clock.advance(timedelta(milliseconds=5_000 if is_left else 4_000))
        if is_left:
            raise lost

    world.engine.before_answer = answer
    for n in range(300):
        with suppress(asyncio.CancelledError):
            await world.ask(key=f"user-{n}")
    release = await ended(world, release)
    assert release.state is State.ROLLED_BACK
    assert "callers who left before their answer was complete" in release.events[-1].reason
    assert "latency" not in release.events[-1].reason


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
    assert (await world.releases.get(release.id)).percent == 95


async def test_two_controllers_take_one_step(world: World) -> None:
    release = await progressing(world)
    await traffic(world)
    world.clock.advance(timedelta(seconds=61))
    async with world.another() as other:
        await asyncio.gather(world.gateway.controller.tick(), other.controller.tick())
    assert (await world.releases.get(release.id)).percent == 95
    assert [event.percent for event in (await world.releases.get(release.id)).events] == [50, 95]


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


ALL_AT_ONCE = (Stage(100, timedelta(0), 10),)
STARTER_1, STARTER_2 = VersionRef("starter", 1), VersionRef("starter", 2)


async def test_a_release_without_scores_holds_says_so_and_ends_in_its_time(world: World) -> None:
    stages = (Stage(50, timedelta(0), 30, max_duration=timedelta(hours=1)), Stage(100, timedelta(0), 0))
    release = await world.until_progressing(await world.release(stages, unproven=Unproven.HOLD))
    await traffic(world)
    world.clock.advance(timedelta(minutes=59))
    await world.tick()
    view = await world.gateway.releases.get(release.id)
    assert view.release.percent == 50
    assert "to compare latency, quality, each version needs traffic of 20 users" in view.waits_for
    assert view.waits_for.endswith("Fails if that takes more than 60 s.")
    world.clock.advance(timedelta(minutes=2))
    release = await ended(world, release)
    assert (release.state, release.failure.code) == (State.FAILED, "DEADLINE_EXCEEDED")
    assert release.failure.message.startswith("Not decided in the time of its stage. Held at 50 %:")
    assert (await world.ask()).version == STARTER_1


async def test_an_engine_that_restarts_changes_no_decision(world: World) -> None:
    """All that is loaded is gone, and the candidate takes its time: the baseline answers, and nobody is to blame."""
    release = await progressing(world)
    world.engine.policies.clear()
    load = world.engine.load

    async def slowly(spec: PolicySpec) -> Policy:
        world.engine.loads_at_once = spec.name == "starter@1"
        return await load(spec)

    world.engine.load = slowly
    await traffic(world)
    assert not [record for record in world.completions.records.values() if record.error]
    world.engine.finish_loading("starter@2")
    await traffic(world)
    world.clock.advance(timedelta(seconds=61))
    await world.tick()
    assert (await world.releases.get(release.id)).percent == 95


async def test_an_engine_that_dies_again_and_again_is_the_candidates_fault(world: World) -> None:
    def die(name: str) -> None:
        if name == "starter@2":
            del world.engine.policies[name]
            world.engine.loads_at_once = False
            raise Unavailable("the engine died")

    await progressing(world)
    await world.ask()
    world.engine.before_answer = die
    for n in range(8):
        await world.ask(key=f"user-{n}")
        world.engine.loads_at_once = True
        if "starter@2" in world.engine.policies:
            world.engine.finish_loading("starter@2")
        await world.gateway.serving.ensure(STARTER_2)
    failed = [record for record in await world.records() if record.error]
    lost = [record for record in await world.records() if record.arm is Arm.FALLBACK]
    assert len(failed) == len(lost) - 1, "the first time it may be the platform's"


async def test_people_pause_resume_and_promote(world: World) -> None:
    release = await progressing(world)
    paused = await world.gateway.releases.pause(release.id, "look at it", "key_1")
    assert (paused.release.state, paused.waits_for) == (
        State.PAUSED,
        "Paused: all traffic is with the baseline until somebody resumes it.",
    )
    world.clock.advance(timedelta(days=9))
    await world.tick()
    assert {(await world.ask(key=f"user-{n}")).version for n in range(20)} == {STARTER_1}
    resumed = await world.gateway.releases.resume(release.id, "", "key_1")
    assert (resumed.release.percent, resumed.release.events[-1].actor) == (50, "key_1")
    await world.gateway.releases.promote(release.id, "it is good", "key_1")
    asked = [(await world.ask(key=f"user-{n}")).version for n in range(100)]
    assert 0 < asked.count(STARTER_1) < 15
    assert (await ended(world, release)).state is State.SUCCEEDED
    assert world.registry.aliases["starter", CHAMPION] == 2


async def test_another_gateway_loads_the_candidate_by_itself(world: World) -> None:
    await progressing(world)
    async with world.another() as other:
        await other.controller.tick()
        assert await other.serving.ensure(STARTER_2, wait=timedelta(0))


async def test_callers_who_leave_are_counted_and_no_errors(world: World) -> None:
    release = await progressing(world)
    request = CompletionRequest(ModelRef.parse_registered("starter"), TextPrompt("say hi"))
    for _ in range(40):
        pieces = world.gateway.completer.stream(request)
        await anext(pieces)
        await pieces.aclose()
    await world.gateway.recorder.flush()
    view = await world.gateway.releases.get(release.id)
    assert view.baseline.left + view.candidate.left == 40
    assert (view.candidate.requests, view.candidate.answered, view.candidate.errors) == (view.candidate.left, 0, 0)


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
