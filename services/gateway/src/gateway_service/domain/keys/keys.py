"""Makes, checks, lists and revokes API keys."""

from collections.abc import Sequence

from gateway_service.domain.keys.key import PREFIX, ApiKey, NewKey, Scope, digest_of, new_secret
from gateway_service.domain.keys.ports import KeyStore
from ratchet_kit.errors import AlreadyExists, Unauthenticated
from ratchet_kit.faults import Faults
from ratchet_kit.ids import new_id
from ratchet_kit.times import Clock

BOOTSTRAP_NAME = "bootstrap"


class Keys:
    """The use cases around API keys."""

    def __init__(self, store: KeyStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def create(self, name: str, scopes: Sequence[str]) -> NewKey:
        """Raises InvalidArgument that names every field at fault."""
        faults = Faults()
        faults.required("name", name)
        faults.required("scopes", scopes)
        for scope in scopes:
            faults.one_of("scopes", scope, Scope)
        faults.raise_if_any()
        return await self._add(name, frozenset(Scope(scope) for scope in scopes), new_secret())

    async def authenticate(self, secret: str) -> ApiKey:
        """The key of a secret. Raises Unauthenticated when it is unknown or was revoked."""
        key = await self._store.by_digest(digest_of(secret))
        if key is None or key.revoke_time:
            raise Unauthenticated("the API key is not known or was revoked")
        return key

    async def list(self) -> Sequence[ApiKey]:
        return await self._store.list()

    async def revoke(self, key_id: str) -> ApiKey:
        """Raises NotFound."""
        key = (await self._store.get(key_id)).revoke(self._clock.now())
        await self._store.save(key)
        return key

    async def ensure_admin(self, secret: str) -> None:
        """Makes the bootstrap key valid at first start; one that was revoked stays so."""
        if await self._store.by_digest(digest_of(secret)) is None:
            try:
                await self._add(BOOTSTRAP_NAME, frozenset({Scope.ADMIN}), secret)
            except AlreadyExists:
                pass  # another gateway on the same database was first

    async def _add(self, name: str, scopes: frozenset[Scope], secret: str) -> NewKey:
        key = ApiKey(
            id=new_id("key"),
            name=name,
            digest=digest_of(secret),
            hint=secret[: len(PREFIX) + 6],
            scopes=scopes,
            create_time=self._clock.now(),
        )
        await self._store.add(key)
        return NewKey(key, secret)
