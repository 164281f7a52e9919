"""Decides who may call."""

from gateway_service.domain.keys.key import Scope
from gateway_service.domain.keys.keys import Keys
from ratchet_kit.errors import Unauthenticated


class Authenticator:
    """Checks the API key of each call. Without keys, everybody may call everything."""

    def __init__(self, keys: Keys | None) -> None:
        self._keys = keys

    async def check(self, secret: str, scope: Scope) -> str:
        """The key's id, empty where there are no keys.

        Raises Unauthenticated without a valid key, PermissionDenied when the key lacks the scope.
        """
        if self._keys is None:
            return ""
        if not secret:
            raise Unauthenticated("an API key is needed: Authorization: Bearer rk_...")
        key = await self._keys.authenticate(secret)
        key.require(scope)
        return key.id
