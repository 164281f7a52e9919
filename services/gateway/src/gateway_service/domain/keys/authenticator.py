"""Decides who may call."""

from gateway_service.domain.keys.caller import ANYBODY
from gateway_service.domain.keys.identities import PERSON, TOKEN, Identities
from gateway_service.domain.keys.key import ApiKey, Scope
from gateway_service.domain.keys.keys import Keys
from ratchet_kit.errors import FailedPrecondition, Unauthenticated


class Authenticator:
    """Checks the API key of each call, or the token of an identity provider. Without keys, everybody may call
    everything."""

    def __init__(self, keys: Keys | None, identities: Identities | None = None) -> None:
        self._keys = keys
        self._identities = identities

    async def identify(self, secret: str) -> ApiKey:
        """The key of the secret, ANYBODY where there are no keys. Raises Unauthenticated without a valid key, and what
        `Identities.identify` raises."""
        if self._keys is None:
            return ANYBODY
        if not secret:
            raise Unauthenticated("an API key is needed: Authorization: Bearer rk_...")
        if self._identities is not None and secret.startswith(TOKEN):
            return await self._identities.identify(secret)
        return await self._keys.authenticate(secret)

    async def of_id(self, key_id: str) -> ApiKey:
        """The key of an id, for what the gateway does for its holder. Raises Unauthenticated when it is not valid any
        more, FailedPrecondition for somebody who has none."""
        if key_id.startswith(PERSON):
            raise FailedPrecondition(
                "a workflow acts for an API key, which outlasts a login: make one (ratchet keys create --scope train), "
                "and create the workflow with it"
            )
        return ANYBODY if self._keys is None else await self._keys.of_id(key_id)

    async def check(self, secret: str, scope: Scope) -> ApiKey:
        """The same. Raises PermissionDenied, too, when the key lacks the scope."""
        key = await self.identify(secret)
        key.require(scope)
        return key
