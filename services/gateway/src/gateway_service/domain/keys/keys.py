"""Makes, checks, lists and revokes API keys."""

from collections.abc import Sequence

from gateway_service.domain.keys.key import PREFIX, ApiKey, NewKey, Scope, digest_of, new_secret
from gateway_service.domain.keys.ports import KeyStore
from ratchet_kit.errors import AlreadyExists, Unauthenticated
from ratchet_kit.faults import Faults
from ratchet_kit.idempotency import Request
from ratchet_kit.ids import new_id
from ratchet_kit.pages import Page, fetch_page
from ratchet_kit.times import Clock

BOOTSTRAP_NAME = "bootstrap"


class Keys:
    """The use cases around API keys."""

    def __init__(self, store: KeyStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def create(self, request_id: str, name: str, scopes: Sequence[Scope]) -> NewKey:
        """Idempotent under `request_id`; a repeated request gets the key without its secret.

        Raises InvalidArgument that names every field at fault, AlreadyExists when the request id was used for another
        key.
        """
        faults = Faults()
        faults.required("name", name)
        faults.required("scopes", scopes)
        faults.raise_if_any()
        request = Request.of(request_id, name, sorted(set(scopes)))
        return await self._make(name, frozenset(scopes), new_secret(), request)

    async def authenticate(self, secret: str) -> ApiKey:
        """The key of a secret. Raises Unauthenticated when it is unknown or was revoked."""
        key = await self._store.by_digest(digest_of(secret))
        if key is None or key.revoke_time:
            raise Unauthenticated("the API key is not known or was revoked")
        return key

    async def page(self, page_size: int, page_token: str) -> Page[ApiKey]:
        """Newest first, revoked ones too. Raises InvalidArgument for a page token that no list returned."""
        return await fetch_page(self._store.page, lambda key: key.id, str, page_size, page_token)

    async def revoke(self, key_id: str) -> ApiKey:
        """Idempotent. Raises NotFound."""
        key = (await self._store.get(key_id)).revoke(self._clock.now())
        await self._store.save(key)
        return key

    async def ensure_admin(self, secret: str) -> None:
        """Makes the bootstrap key valid at first start; one that was revoked stays so."""
        if await self._store.by_digest(digest_of(secret)) is None:
            try:
                await self._make(BOOTSTRAP_NAME, frozenset({Scope.ADMIN}), secret, Request.of(""))
            except AlreadyExists:
                pass  # another gateway on the same database was first

    async def _make(self, name: str, scopes: frozenset[Scope], secret: str, request: Request) -> NewKey:
        key = ApiKey(
            id=new_id("key"),
            name=name,
            digest=digest_of(secret),
            hint=secret[: len(PREFIX) + 6],
            scopes=scopes,
            create_time=self._clock.now(),
        )
        stored = await self._store.create(key, request)
        return NewKey(stored, secret if stored.id == key.id else "")
