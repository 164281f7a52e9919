import pytest

from gateway_service.domain.keys.authenticator import Authenticator
from gateway_service.domain.keys.key import ApiKey, Scope
from gateway_service.domain.keys.known_keys import LOOKS
from ratchet_kit.errors import PermissionDenied, Unauthenticated

from ..world import ADMIN_KEY, World


async def test_checks_the_key_and_its_scope(world: World) -> None:
    new = await world.gateway.keys.create("", "app", [Scope.INFERENCE])
    authenticator = Authenticator(world.gateway.keys)
    await authenticator.check(new.secret, Scope.INFERENCE)
    await authenticator.check(ADMIN_KEY, Scope.INFERENCE)
    await authenticator.check(ADMIN_KEY, Scope.ADMIN)
    with pytest.raises(PermissionDenied):
        await authenticator.check(new.secret, Scope.ADMIN)
    with pytest.raises(Unauthenticated):
        await authenticator.check("", Scope.INFERENCE)


async def test_without_keys_everybody_may_call() -> None:
    await Authenticator(None).check("", Scope.ADMIN)


async def test_keys_that_somebody_makes_up_ask_no_database_each_time(world: World) -> None:
    by_digest, asked = world.keys.by_digest, list[str]()

    async def counted(digest: str) -> ApiKey | None:
        asked.append(digest)
        return await by_digest(digest)

    world.keys.by_digest = counted
    for number in range(300):
        with pytest.raises(Unauthenticated):
            await world.gateway.keys.authenticate(f"rk_{number}")
    assert len(asked) == LOOKS
    new = await world.gateway.keys.create("", "app", [Scope.INFERENCE])
    assert await world.gateway.keys.authenticate(new.secret) == new.key
    async with world.another() as other:
        for number in range(LOOKS - 1):
            with pytest.raises(Unauthenticated):
                await other.keys.authenticate(f"rk_{number % 2}")
        late = await world.gateway.keys.create("", "late", [Scope.INFERENCE])
        assert await other.keys.authenticate(late.secret) == late.key
