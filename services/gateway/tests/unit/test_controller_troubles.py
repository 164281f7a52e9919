"""A release whose next step breaks is set aside, and holds up no other."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY

from gateway_service.domain.ports import GateResult, RegisteredModel
from gateway_service.domain.releases.controller import TRIES
from gateway_service.domain.releases.release import Release, ReleaseSpec, Stage, State
from gateway_service.domain.traffic.record import Arm
from gateway_service.domain.traffic.sample import ArmSample
from ratchet_kit.errors import NotFound
from ratchet_kit.names import CHAMPION, VersionRef

from ..world import World

Sample = Callable[[str, Arm, int], Awaitable[ArmSample]]
STAGES = (Stage(50, timedelta(seconds=60), 1000), Stage(100, timedelta(seconds=60), 1000))


async def two_releases(world: World) -> tuple[Release, Release]:
    world.registry.versions["other"] = 2
    world.registry.aliases["other", CHAMPION] = 1
    candidate, champion = VersionRef("other", 2), VersionRef("other", 1)
    world.registry.gates["gate_other"] = GateResult("gate_other", candidate, champion, True, "better")
    spec = ReleaseSpec(candidate, "gate_other", STAGES)
    other = (await world.gateway.releases.create("", spec)).release
    return await world.until_progressing(await world.release(STAGES)), await world.until_progressing(other)


async def promoted(world: World) -> Release:
    """And watched."""
    release = await world.until_progressing(await world.release(STAGES, watch=timedelta(hours=2)))
    await world.gateway.releases.promote(release.id, "")
    await look(world, 1)
    assert world.registry.aliases["starter", CHAMPION] == 2
    return await world.releases.get(release.id)


def break_reading(world: World, release: Release, error: Exception) -> Sample:
    """Of this release's traffic. Gives what it was read by."""
    read = world.completions.release_sample

    async def sample(release_id: str, arm: Arm, from_stage: int) -> ArmSample:
        if release_id == release.id:
            raise error
        return await read(release_id, arm, from_stage)

    world.completions.release_sample = sample  # type: ignore[method-assign]
    return read


async def _broken(name: str) -> RegisteredModel:
    raise NameError("name 'men' is not defined")


async def look(world: World, times: int) -> None:
    for _ in range(times):
        await world.tick()
        world.clock.advance(timedelta(minutes=1))


def given_up() -> float:
    return REGISTRY.get_sample_value("ratchet_gateway_releases_set_aside_total") or 0.0


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NameError("name 'men' is not defined"), "an internal error of the gateway (NameError)"),
        (NotFound("gone"), "gone"),
    ],
)
async def test_one_that_breaks_is_set_aside(world: World, error: Exception, reason: str) -> None:
    bad, good = await two_releases(world)
    before = given_up()
    break_reading(world, bad, error)
    await look(world, TRIES - 1)
    assert (await world.releases.get(bad.id)).state is State.PROGRESSING
    await look(world, 1)
    bad = await world.releases.get(bad.id)
    assert (bad.state, bad.percent) == (State.FAILED, 0)
    assert bad.failure is not None
    assert reason in bad.failure.message
    assert given_up() - before == 1
    assert (await world.ask()).version == bad.baseline
    assert (await world.releases.get(good.id)).state is State.PROGRESSING
    await look(world, 2)
    assert (await world.releases.unfinished()) == [await world.releases.get(good.id)], "what lost is unloaded too"


async def test_a_step_that_passes_begins_anew(world: World) -> None:
    bad, _ = await two_releases(world)
    mend = break_reading(world, bad, NameError("name 'men' is not defined"))
    for _ in range(2):
        await look(world, TRIES - 1)
        broken, world.completions.release_sample = world.completions.release_sample, mend
        await look(world, 1)
        world.completions.release_sample = broken
    assert (await world.releases.get(bad.id)).state is State.PROGRESSING


async def test_one_that_goes_on_breaking_is_looked_at_ever_more_seldom(world: World) -> None:
    release = await promoted(world)
    await world.gateway.releases.roll_back(release.id, "customers complain")
    looks, model = [], world.registry.model

    async def broken(name: str) -> RegisteredModel:
        looks.append(name)
        raise NameError("name 'men' is not defined")

    world.registry.model = broken  # type: ignore[method-assign]
    for _ in range(300):
        await world.tick()
        world.clock.advance(timedelta(seconds=1))
    assert TRIES < len(looks) < TRIES + 7
    falling = await world.releases.get(release.id)
    assert (falling.state, falling.percent) == (State.FALLING_BACK, 0)
    assert falling.failure is not None
    world.registry.model = model  # type: ignore[method-assign]
    await look(world, 3)
    assert (await world.releases.get(release.id)).state is State.ROLLED_BACK
    assert world.registry.aliases["starter", CHAMPION] == 1


async def test_one_that_may_have_set_the_champion_falls_back(world: World) -> None:
    release = await world.until_progressing(await world.release(STAGES, watch=timedelta(hours=2)))
    promote = world.registry.promote

    async def set_and_break(*arguments: Any, **options: Any) -> None:
        await promote(*arguments, **options)
        raise NameError("name 'men' is not defined")

    world.registry.promote = set_and_break  # type: ignore[method-assign]
    await world.gateway.releases.promote(release.id, "")
    await look(world, 1)
    assert world.registry.aliases["starter", CHAMPION] == 2
    model, world.registry.model = world.registry.model, _broken  # type: ignore[method-assign]
    await look(world, TRIES)
    assert (await world.releases.get(release.id)).state is State.FALLING_BACK
    world.registry.model, world.registry.promote = model, promote  # type: ignore[method-assign]
    await look(world, 3)
    release = await world.releases.get(release.id)
    assert release.state is State.ROLLED_BACK
    assert release.failure is not None
    assert world.registry.aliases["starter", CHAMPION] == 1


async def test_a_watch_that_breaks_takes_no_champion_back(world: World) -> None:
    release = await promoted(world)
    mend = break_reading(world, release, NameError("name 'men' is not defined"))
    await look(world, TRIES + 30)
    assert (await world.releases.get(release.id)).state is State.WATCHING
    world.completions.release_sample = mend  # type: ignore[method-assign]
    await look(world, 2)
    assert (await world.releases.get(release.id)).state is State.WATCHING
    break_reading(world, release, NameError("name 'men' is not defined"))
    await look(world, 120)
    release = await world.releases.get(release.id)
    assert (release.state, release.percent) == (State.SUCCEEDED, 100)
    assert release.failure is not None
    assert "could not be watched to the end" in release.events[-1].reason
    assert world.registry.aliases["starter", CHAMPION] == 2


async def test_one_that_cannot_be_judged_is_shown_all_the_same(world: World) -> None:
    bad, good = await two_releases(world)
    break_reading(world, bad, NameError("name 'men' is not defined"))
    page = await world.gateway.releases.page("", 10, "")
    waits = {view.release.id: view.waits_for for view in page.items}
    assert "Cannot be judged" in waits[bad.id]
    assert "Cannot be judged" not in waits[good.id]
    assert (await world.gateway.releases.roll_back(bad.id, "")).release.state is State.ROLLED_BACK
