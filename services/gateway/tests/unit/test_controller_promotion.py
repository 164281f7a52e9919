"""The end of a release: the champion is set, watched, and may fall back."""

from datetime import timedelta

from gateway_service.domain.releases.release import Release, State
from ratchet_kit.names import CHAMPION, VersionRef

from ..world import World
from .test_controller import ALL_AT_ONCE, HALF_THEN_ALL, STARTER_1, STARTER_2, ended, score, traffic


async def promoting(world: World, watch: timedelta = timedelta(0)) -> Release:
    release = await world.until_progressing(await world.release(ALL_AT_ONCE, watch=watch))
    await traffic(world)
    await world.tick()
    release = await world.releases.get(release.id)
    assert release.state is State.PROMOTING
    return release


async def until(world: World, release: Release, state: State) -> Release:
    for _ in range(4):
        await world.tick()
        world.clock.advance(timedelta(seconds=31))
    release = await world.releases.get(release.id)
    assert release.state is state
    return release


async def test_a_roll_back_beside_the_promotion_wins_wholly(world: World) -> None:
    """It is asked for while a controller sets the champion: whoever is first, the baseline is the champion again."""
    release = await promoting(world)
    promote = world.registry.promote

    async def promote_late(ref: VersionRef, *rest: object) -> None:
        if ref == STARTER_2:
            await world.gateway.releases.roll_back(release.id, "customers complain", "key_1")
            assert (await world.ask()).version == STARTER_1
        await promote(ref, *rest)

    world.registry.promote = promote_late
    await world.tick()
    assert world.registry.aliases["starter", CHAMPION] == 2
    assert (await world.ask()).version == STARTER_1
    ended = await until(world, release, State.ROLLED_BACK)
    assert world.registry.aliases["starter", CHAMPION] == 1
    assert (await world.ask()).version == STARTER_1
    assert [event.percent for event in ended.events] == [95, 95, 0]


async def test_a_call_that_promotes_and_is_late_is_taken_back(world: World) -> None:
    release = await promoting(world)
    await world.gateway.releases.roll_back(release.id, "customers complain")
    await world.tick()
    world.registry.aliases["starter", CHAMPION] = 2
    await until(world, release, State.ROLLED_BACK)
    assert world.registry.aliases["starter", CHAMPION] == 1


async def test_a_controller_that_died_after_it_set_the_champion_goes_on(world: World) -> None:
    release = await promoting(world)
    world.registry.aliases["starter", CHAMPION] = 2
    await world.start()
    assert (await ended(world, release)).state is State.SUCCEEDED
    assert world.registry.promotions == []


async def test_a_champion_that_somebody_else_set_is_left(world: World) -> None:
    release = await promoting(world)
    world.registry.aliases["starter", CHAMPION] = 3
    release = await ended(world, release)
    assert (release.state, world.registry.aliases["starter", CHAMPION]) == (State.FAILED, 3)
    assert "the champion is starter@3 by now" in release.failure.message


async def test_a_new_champion_is_watched_and_falls_back_when_it_drops(world: World) -> None:
    release = await world.until_progressing(await world.release(HALF_THEN_ALL, watch=timedelta(hours=1)))
    for _ in HALF_THEN_ALL:
        await traffic(world)
        await score(world, {"starter@1": 0.8, "starter@2": 0.8})
        world.clock.advance(timedelta(seconds=61))
        await world.tick()
    await world.tick()
    release = await world.releases.get(release.id)
    assert (release.state, world.registry.aliases["starter", CHAMPION]) == (State.WATCHING, 2)
    await traffic(world, 1_000)
    await score(world, {"starter@1": 0.8, "starter@2": 0.1})
    release = await until(world, release, State.ROLLED_BACK)
    assert "quality 0.700 lower than the baseline's" in release.events[-1].reason
    assert world.registry.taken_back == [STARTER_2]
    assert (await world.ask()).version == STARTER_1


async def test_a_watch_that_shows_nothing_ends_well(world: World) -> None:
    release = await promoting(world, timedelta(hours=1))
    assert (await until(world, release, State.WATCHING)).percent == 95
    assert "starter@1" in world.engine.policies
    world.clock.advance(timedelta(hours=1))
    release = await until(world, release, State.SUCCEEDED)
    assert set(world.engine.policies) == {"starter@2"}
