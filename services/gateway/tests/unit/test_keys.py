import pytest

from gateway_service.domain.keys.key import Scope
from ratchet_kit.errors import AlreadyExists, InvalidArgument, NotFound, Unauthenticated

from ..world import World


async def test_a_key_is_known_by_its_secret_until_revoked(world: World) -> None:
    keys = world.gateway.keys
    new = await keys.create("", "ci", [Scope.INFERENCE])
    assert new.secret.startswith("rk_")
    assert len(new.secret) == 67
    assert new.secret not in repr(new.key)
    assert await keys.authenticate(new.secret) == new.key
    await keys.revoke(new.key.id)
    with pytest.raises(Unauthenticated):
        await keys.authenticate(new.secret)


async def test_a_repeated_request_gets_the_key_without_its_secret(world: World) -> None:
    keys = world.gateway.keys
    new = await keys.create("req_1", "ci", [Scope.INFERENCE])
    again = await keys.create("req_1", "ci", [Scope.INFERENCE])
    assert (again.key, again.secret) == (new.key, "")
    assert (await keys.create("req_1", "ci", [Scope.INFERENCE, Scope.INFERENCE])).key == new.key
    with pytest.raises(AlreadyExists):
        await keys.create("req_1", "ci", [Scope.ADMIN])


async def test_names_every_field_at_fault(world: World) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await world.gateway.keys.create("", "", [])
    assert [violation.field for violation in caught.value.violations] == ["name", "scopes"]
    with pytest.raises(NotFound):
        await world.gateway.keys.revoke("key_none")


async def test_pages_newest_first(world: World) -> None:
    keys = world.gateway.keys
    for name in ("a", "b"):
        await keys.create("", name, [Scope.ADMIN])
    first = await keys.page(2, "")
    rest = await keys.page(2, first.next_page_token)
    assert [key.name for key in (*first.items, *rest.items)] == ["b", "a", "bootstrap"]


async def test_the_bootstrap_key_is_made_once_and_stays_revoked(world: World) -> None:
    keys = world.gateway.keys
    await keys.ensure_admin("rk_boot")
    await keys.ensure_admin("rk_boot")
    (key,) = [key for key in (await keys.page(0, "")).items if key.hint == "rk_boot"]
    await keys.revoke(key.id)
    await keys.ensure_admin("rk_boot")
    with pytest.raises(Unauthenticated):
        await keys.authenticate("rk_boot")
