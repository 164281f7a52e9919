"""What requests need is in memory: nothing is asked on their way, and what others change is seen at the next look."""

from collections import Counter
from datetime import timedelta

import pytest

from gateway_service.domain.keys.key import Scope
from gateway_service.domain.releases.release import Stage
from ratchet_kit.errors import NotFound, Unauthenticated, Unavailable
from ratchet_kit.names import CHAMPION, VersionRef

from ..world import World

HALF = (Stage(50, timedelta(hours=1), 0), Stage(100, timedelta(0), 0))


def count_calls(world: World, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts what the stores of keys and releases and the registry are called for, from now on."""
    calls: Counter[str] = Counter()

    def counted(owner: object, name: str) -> None:
        called = getattr(owner, name)

        async def count(*args: object) -> object:
            calls[name] += 1
            return await called(*args)

        monkeypatch.setattr(owner, name, count)

    for owner, names in (
        (world.keys, ("by_digest", "changed_since")),
        (world.releases, ("active", "all_active")),
        (world.registry, ("model", "version")),
    ):
        for name in names:
            counted(owner, name)
    return calls


async def test_a_request_asks_nobody(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.until_progressing(await world.release(HALF))
    async with world.http() as http:

        async def request_each() -> None:
            for model in ("starter", "starter@1", "starter@2", "starter:champion"):
                body = {"model": model, "messages": [{"role": "user", "content": "say hi"}]}
                assert (await http.post("/v1/chat/completions", json=body)).status_code == 200

        await request_each()
        calls = count_calls(world, monkeypatch)
        await request_each()
    assert not calls


async def test_a_rollback_and_a_revoked_key_reach_another_gateway_at_its_next_look(world: World) -> None:
    release = await world.until_progressing(await world.release((Stage(100, timedelta(hours=1), 0),)))
    key = await world.gateway.keys.create("", "app", [Scope.INFERENCE])
    async with world.another() as other:
        assert (await other.keys.authenticate(key.secret)).id == key.key.id
        assert other.refresher is not world.gateway.refresher
        await world.gateway.releases.roll_back(release.id, "worse")
        await world.gateway.keys.revoke(key.key.id)
        assert (await world.ask()).version == VersionRef("starter", 1)
        with pytest.raises(Unauthenticated):
            await world.gateway.keys.authenticate(key.secret)
        await other.refresher.refresh()
        with pytest.raises(Unauthenticated):
            await other.keys.authenticate(key.secret)
        world.gateway, first = other, world.gateway
        assert (await world.ask()).version == VersionRef("starter", 1)
        world.gateway = first


async def test_a_new_key_is_valid_at_every_gateway_at_once(world: World) -> None:
    async with world.another() as other:
        key = await world.gateway.keys.create("", "app", [Scope.INFERENCE])
        assert (await other.keys.authenticate(key.secret)).id == key.key.id


async def test_a_moved_alias_is_seen_at_the_next_look(world: World) -> None:
    assert (await world.ask()).version.number == 1
    world.registry.aliases["starter", CHAMPION] = 3
    await world.gateway.refresher.refresh()
    assert (await world.ask()).version.number == 3
    del world.registry.versions["starter"]
    await world.gateway.refresher.refresh()
    with pytest.raises(NotFound):
        await world.ask()


async def test_what_was_known_holds_while_the_registry_is_away(world: World) -> None:
    await world.ask()
    world.registry.away = Unavailable("the registry is away")
    await world.gateway.refresher.refresh()
    assert (await world.ask()).version.number == 1


async def test_a_model_that_nobody_names_is_not_read_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.ask()
    world.clock.advance(timedelta(minutes=11))
    calls = count_calls(world, monkeypatch)
    await world.gateway.refresher.refresh()
    assert calls["model"] == 0
