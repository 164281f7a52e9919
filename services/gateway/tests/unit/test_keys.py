import pytest

from gateway_service.domain.keys import Doorkeeper, Scope
from ratchet_kit.errors import InvalidArgument, NotFound, PermissionDenied, Unauthenticated


async def test_a_key_is_known_by_its_secret_until_revoked(world) -> None:
    new = await world.ring.create("ci", ["inference"])
    assert new.secret.startswith("rk_")
    assert len(new.secret) == 67
    assert new.secret not in repr(new.key)
    assert await world.ring.authenticate(new.secret) == new.key
    await world.ring.revoke(new.key.id)
    with pytest.raises(Unauthenticated):
        await world.ring.authenticate(new.secret)


async def test_names_the_field_at_fault(world) -> None:
    for name, scopes, field in (("", ["admin"], "name"), ("ci", [], "scopes"), ("ci", ["root"], "scopes")):
        with pytest.raises(InvalidArgument) as caught:
            await world.ring.create(name, scopes)
        assert caught.value.violations[0].field == field
    with pytest.raises(NotFound):
        await world.ring.revoke("key_none")


async def test_the_bootstrap_key_is_made_once_and_stays_revoked(world) -> None:
    await world.ring.ensure_admin("rk_boot")
    await world.ring.ensure_admin("rk_boot")
    (key,) = [key for key in await world.ring.list() if key.hint == "rk_boot"]
    await world.ring.revoke(key.id)
    await world.ring.ensure_admin("rk_boot")
    with pytest.raises(Unauthenticated):
        await world.ring.authenticate("rk_boot")


async def test_the_doorkeeper(world) -> None:
    new = await world.ring.create("app", ["inference"])
    door = Doorkeeper(world.ring)
    await door.admit(new.secret, Scope.INFERENCE)
    await door.admit("rk_admin", Scope.INFERENCE)
    await door.admit("rk_admin", Scope.ADMIN)
    with pytest.raises(PermissionDenied):
        await door.admit(new.secret, Scope.ADMIN)
    with pytest.raises(Unauthenticated):
        await door.admit("", Scope.INFERENCE)
    await Doorkeeper(None).admit("", Scope.ADMIN)
