import pytest

from gateway_service.domain.keys.authenticator import Authenticator
from gateway_service.domain.keys.key import Scope
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
