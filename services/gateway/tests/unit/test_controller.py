"""Releases from their creation to their end, over traffic, with a clock set by hand."""

import asyncio
from datetime import timedelta

import pytest

from gateway_service.domain.ports import GateResult
from gateway_service.domain.releases import Bounds, Release, ReleaseSpec, ReleaseState, Stage
from gateway_service.domain.routing import Arm
from gateway_service.domain.targets import CHAMPION, VersionRef
from ratchet_kit.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, Unavailable

HALF_THEN_ALL = (Stage(50, timedelta(seconds=60), 30), Stage(100, timedelta(seconds=60), 30))


async def traffic(world, requests: int = 100) -> None:
    for n in range(requests):
        await world.ask(key=f"user-{n}")
    await world.recorder.flush()


async def score(world, scores: dict[str, float]) -> None:
    """Scores what is unscored, by the version that answered."""
    for record in list(world.completions.records.values()):
        if record.score is None and not record.error and str(record.version) in scores:
            await world.feedback.score(record.id, scores[str(record.version)])


async def test_a_good_candidate_takes_over_step_by_step(world) -> None:
    release = await world.release()
    assert release.state is ReleaseState.PREPARING
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
    assert release.state is ReleaseState.SUCCEEDED
    assert world.registry.promotions == [(VersionRef("starter", 2), "gate_2")]
    assert (await world.ask()).version == VersionRef("starter", 2)

    assert "starter@1" in world.engine.policies, "requests on their way still need it"
    world.clock.advance(timedelta(seconds=31))
    await world.tick()
    assert set(world.engine.policies) == {"starter@2"}
    assert await world.releases.unfinished() == []


async def progressing(world, stages=HALF_THEN_ALL, bounds: Bounds = Bounds()) -> Release:
    return await world.until_progressing(await world.release(stages, bounds))


async def ended(world, release: Release) -> Release:
    await world.tick()
    release = await world.releases.get(release.id)
    assert not release.active
    return release


async def test_rolls_back_when_the_candidate_fails_and_no_answer_does(world) -> None:
    def fail_the_candidate(name: str) -> None:
        if name == "starter@2":
            raise Unavailable("the engine died")

    release = await progressing(world)
    world.engine.before_answer = fail_the_candidate
    await traffic(world)  # raises if an answer fails
    release = await ended(world, release)
    assert release.state is ReleaseState.ROLLED_BACK
    assert "error rate 100.0%" in release.events[-1].reason
    assert (await world.ask(key="user-1")).version == VersionRef("starter", 1)
    arms = [record.arm for record in world.completions.records.values()]
    assert arms.count(Arm.FALLBACK) == arms.count(Arm.CANDIDATE) > 30

    world.clock.advance(timedelta(seconds=31))
    await world.tick()
    assert set(world.engine.policies) == {"starter@1"}


async def test_rolls_back_when_the_candidate_is_slow(world) -> None:
    release = await progressing(world)
    seconds = {"starter@1": 0.1, "starter@2": 0.5}
    world.engine.before_answer = lambda name: world.clock.advance(timedelta(seconds=seconds[name]))
    await traffic(world)
    release = await ended(world, release)
    assert release.state is ReleaseState.ROLLED_BACK
    assert "p95 latency 0.50 s against 0.10 s" in release.events[-1].reason


async def test_rolls_back_when_the_candidate_answers_worse(world) -> None:
    release = await progressing(world)
    await traffic(world)
    await score(world, {"starter@1": 0.8, "starter@2": 0.1})
    release = await ended(world, release)
    assert release.state is ReleaseState.ROLLED_BACK
    assert "quality 0.100" in release.events[-1].reason


async def test_rolls_back_at_the_last_stage_against_what_the_baseline_was(world) -> None:
    release = await progressing(world)
    await traffic(world)
    await score(world, {"starter@1": 0.8, "starter@2": 0.8})
    world.clock.advance(timedelta(seconds=61))
    await world.tick()
    assert (await world.releases.get(release.id)).percent == 100
    await traffic(world)
    await score(world, {"starter@2": 0.1})
    assert (await ended(world, release)).state is ReleaseState.ROLLED_BACK
    assert world.registry.aliases["starter", CHAMPION] == 1


async def test_a_user_rolls_back(world) -> None:
    release = await progressing(world)
    view = await world.desk.roll_back(release.id, "customers complain")
    assert view.release.state is ReleaseState.ROLLED_BACK
    assert view.release.events[-1].reason == "customers complain"
    answers = [await world.ask(key=f"user-{n}") for n in range(50)]
    assert {answer.version.number for answer in answers} == {1}
    with pytest.raises(FailedPrecondition):
        await world.desk.roll_back(release.id, "again")


async def test_fails_when_the_candidate_cannot_be_loaded(world) -> None:
    world.engine.refuse_sources = {"starter/2": "config.json is missing"}
    release = await world.release()
    for _ in range(3):
        await world.tick()
        await asyncio.sleep(0.01)
    release = await world.releases.get(release.id)
    assert (release.state, release.percent) == (ReleaseState.FAILED, 0)
    assert "config.json is missing" in release.error
    assert (await world.ask()).version.number == 1


async def test_fails_when_the_candidate_is_not_ready_in_time(world) -> None:
    world.engine.loads_at_once = False
    release = await world.release()
    await world.tick()
    assert (await world.releases.get(release.id)).state is ReleaseState.PREPARING
    world.clock.advance(timedelta(minutes=11))
    await world.tick()
    assert (await world.releases.get(release.id)).state is ReleaseState.FAILED


async def test_goes_on_after_a_restart(world) -> None:
    release = await progressing(world)
    await traffic(world)
    await world.serving.close()
    world.start_gateway()
    world.clock.advance(timedelta(seconds=61))
    await world.tick()
    assert (await world.releases.get(release.id)).percent == 100


async def test_two_controllers_take_one_step(world) -> None:
    release = await progressing(world)
    await traffic(world)
    world.clock.advance(timedelta(seconds=61))
    other = world.new_controller()
    await asyncio.gather(world.controller.tick(), other.tick())
    assert (await world.releases.get(release.id)).percent == 100
    assert [event.percent for event in (await world.releases.get(release.id)).events] == [50, 100]


async def test_waits_while_the_registry_is_away(world) -> None:
    release = await progressing(world, stages=(Stage(100, timedelta(0), 10),))
    await traffic(world)
    world.registry.refuse_promotion = Unavailable("registry is away")
    await world.tick()
    assert (await world.releases.get(release.id)).active
    world.registry.refuse_promotion = None
    assert (await ended(world, release)).state is ReleaseState.SUCCEEDED


async def test_fails_when_the_registry_refuses_the_new_champion(world) -> None:
    release = await progressing(world, stages=(Stage(100, timedelta(0), 10),))
    await traffic(world)
    world.registry.refuse_promotion = FailedPrecondition("the champion is another by now")
    release = await ended(world, release)
    assert release.state is ReleaseState.FAILED
    assert "another by now" in release.error
    assert (await world.ask()).version.number == 1


async def test_create_is_idempotent_under_its_request_id(world) -> None:
    spec = ReleaseSpec("starter", 2, "gate_2", HALF_THEN_ALL)
    first = await world.desk.create("req_1", spec)
    assert await world.desk.create("req_1", spec) == first
    with pytest.raises(AlreadyExists):
        await world.desk.create("req_1", ReleaseSpec("starter", 2, "gate_2"))


async def test_create_needs_a_passed_gate_for_the_pair(world) -> None:
    gates = world.registry.gates
    gates["failed"] = GateResult("failed", "starter", 2, 1, False, "not better")
    gates["other"] = GateResult("other", "starter", 3, 1, True, "better")
    gates["old"] = GateResult("old", "starter", 2, 3, True, "better than 3")
    for gate_id in ("", "unknown", "failed", "other", "old"):
        with pytest.raises(FailedPrecondition, match="gate"):
            await world.desk.create("", ReleaseSpec("starter", 2, gate_id))


async def test_create_refuses_what_cannot_be(world) -> None:
    with pytest.raises(InvalidArgument):
        await world.desk.create("", ReleaseSpec("starter", 0, "gate_2"))
    with pytest.raises(NotFound):
        await world.desk.create("", ReleaseSpec("nobody", 2, "gate_2"))
    with pytest.raises(NotFound):
        await world.desk.create("", ReleaseSpec("starter", 9, "gate_2"))
    with pytest.raises(FailedPrecondition, match="champion already"):
        await world.desk.create("", ReleaseSpec("starter", 1, "gate_2"))
    await world.release()
    with pytest.raises(FailedPrecondition, match="under way"):
        await world.release()
    del world.registry.aliases["starter", CHAMPION]
    with pytest.raises(FailedPrecondition, match="no champion"):
        await world.desk.create("", ReleaseSpec("starter", 2, "gate_2"))


async def test_watch_shows_changes_and_ends_with_the_release(world) -> None:
    release = await progressing(world)
    views = world.desk.watch(release.id)
    assert (await anext(views)).release.percent == 50
    await traffic(world, 10)
    assert (await anext(views)).candidate.requests > 0
    await world.desk.roll_back(release.id, "")
    assert [view.release.state async for view in views] == [ReleaseState.ROLLED_BACK]


async def test_list_pages_newest_first(world) -> None:
    made = []
    for _ in range(3):
        release = await world.release()
        await world.desk.roll_back(release.id, "")
        made.append(release.id)
    first = await world.desk.list("starter", 2, "")
    rest = await world.desk.list("", 2, first.next_page_token)
    assert [view.release.id for view in (*first.items, *rest.items)] == made[::-1]
    assert rest.next_page_token == ""
