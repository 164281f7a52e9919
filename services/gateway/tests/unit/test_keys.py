import pytest

from ratchet_kit.errors import InvalidArgument, NotFound, Unauthenticated

from ..world import World


async def test_a_key_is_known_by_its_secret_until_revoked(world: World) -> None:
    new = await world.gateway.keys.create("ci", ["inference"])
    assert new.secret.startswith("rk_")
    assert len(new.secret) == 67
    assert new.secret not in repr(new.key)
    assert await world.gateway.keys.authenticate(new.secret) == new.key
    await world.gateway.keys.revoke(new.key.id)
    with pytest.raises(Unauthenticated):
        await world.gateway.keys.authenticate(new.secret)


async def test_names_the_field_at_fault(world: World) -> None:
    for name, scopes, field in (("", ["admin"], "name"), ("ci", [], "scopes"), ("ci", ["root"], "scopes")):
        with pytest.raises(InvalidArgument) as caught:
            await world.gateway.keys.create(name, scopes)
        assert caught.value.violations[0].field == field
    with pytest.raises(NotFound):
        await world.gateway.keys.revoke("key_none")


async def test_the_bootstrap_key_is_made_once_and_stays_revoked(world: World) -> None:
    await world.gateway.keys.ensure_admin("rk_boot")
    await world.gateway.keys.ensure_admin("rk_boot")
    (key,) = [key for key in await world.gateway.keys.list() if key.hint == "rk_boot"]
    await world.gateway.keys.revoke(key.id)
    await world.gateway.keys.ensure_admin("rk_boot")
    with pytest.raises(Unauthenticated):
        await world.gateway.keys.authenticate("rk_boot")
