"""Makes, checks, lists and revokes API keys."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from gateway_service.domain.keys.key import PREFIX, ApiKey, NewKey, Scope, digest_of, new_secret
from gateway_service.domain.keys.known_keys import KnownKeys
from gateway_service.domain.keys.ports import KeyStore
from ratchet_kit import projects
from ratchet_kit.errors import AlreadyExists, NotFound, Unauthenticated
from ratchet_kit.faults import Faults
from ratchet_kit.idempotency import Request
from ratchet_kit.ids import new_id
from ratchet_kit.names import check_model_name
from ratchet_kit.pages import Page, fetch_page
from ratchet_kit.times import Clock

BOOTSTRAP_NAME = "bootstrap"
MAX_NAME = 200
"""Characters."""
MAX_MODELS = 1000


class Keys:
    """The use cases around API keys."""

    def __init__(self, store: KeyStore, known: KnownKeys, clock: Clock) -> None:
        self._store = store
        self._known = known
        self._clock = clock

    async def create(
        self,
        request_id: str,
        name: str,
        scopes: Sequence[Scope],
        models: Sequence[str] = (),
        expire_time: datetime | None = None,
        actor: str = "",
        keep_traffic: bool = False,
        monthly_tokens: int = 0,
        project: str = "",
    ) -> NewKey:
        """Idempotent under `request_id`; a repeated request gets the key without its secret. `actor`: the id of the key
        that asks for it. `keep_traffic`: what it sends may be kept. `project`: empty for that of the present call.

        Raises InvalidArgument that names every field at fault, AlreadyExists when the request id was used for another
        key.
        """
        faults = Faults()
        faults.required("name", name)
        faults.length("name", name, MAX_NAME)
        faults.required("scopes", scopes)
        faults.length("models", models, MAX_MODELS)
        for index, model in enumerate(models[:MAX_MODELS]):
            faults.read(f"models[{index}]", check_model_name, model)
        faults.unless(expire_time is None or expire_time > self._clock.now(), "expire_time", "must be in the future")
        faults.bounds("monthly_tokens", monthly_tokens, at_least=0)
        own = projects.current() or projects.DEFAULT
        rule = "must be 20 letters and digits at most, the first a letter"
        faults.unless(not project or projects.is_name(project), "project", rule)
        faults.unless(own in (projects.DEFAULT, project) or not project, "project", f"must be {own}, as yours is")
        faults.raise_if_any()
        narrowed = [sorted(set(models)), str(expire_time)] if models or expire_time else []
        consent = ["keep_traffic"] if keep_traffic else []
        budget = [monthly_tokens] if monthly_tokens else []
        secret = new_secret()
        with projects.acting(project or own):
            request = Request.of(request_id, name, sorted(set(scopes)), *narrowed, *consent, *budget)
            key = self._key(name, frozenset(scopes), secret)
        key = replace(key, models=frozenset(models), expire_time=expire_time, actor=actor, keep_traffic=keep_traffic)
        key = replace(key, monthly_tokens=monthly_tokens)
        made = await self._make(key, secret, request)
        await self._known.refresh()
        return made

    async def authenticate(self, secret: str) -> ApiKey:
        """The key of a secret. Raises Unauthenticated when it is unknown, was revoked or has expired."""
        key = await self._known.find(digest_of(secret))
        if key is None:
            raise Unauthenticated("the API key is not known or was revoked")
        key.check_valid(self._clock.now())
        return key

    async def of_id(self, key_id: str) -> ApiKey:
        """Raises Unauthenticated when it is unknown, was revoked or has expired."""
        try:
            key = await self._store.get(key_id)
        except NotFound as error:
            raise Unauthenticated("the API key is not known or was revoked") from error
        key.check_valid(self._clock.now())
        return key

    async def page(self, page_size: int, page_token: str) -> Page[ApiKey]:
        """Newest first, revoked ones too. Raises InvalidArgument for a page token that no list returned."""
        return await fetch_page(self._store.page, lambda key: key.id, str, page_size, page_token)

    async def revoke(self, key_id: str, actor: str = "") -> ApiKey:
        """Idempotent; this gateway refuses the key from now on, the others within a second. `actor`: the id of the key
        that asks for it. Raises NotFound."""
        key = await self._store.change(key_id, lambda key: key.revoke(self._clock.now(), actor))
        await self._known.refresh()
        return key

    async def set_traffic(self, key_id: str, keep: bool) -> ApiKey:
        """Idempotent; here it holds from now on, for the other gateways within a second. Raises NotFound,
        FailedPrecondition when the key was revoked."""
        key = await self._store.change(key_id, lambda key: key.set_traffic(keep))
        await self._known.refresh()
        return key

    async def ensure_admin(self, secret: str) -> None:
        """Makes the bootstrap key valid at first start; one that was revoked stays so."""
        if await self._store.by_digest(digest_of(secret)) is None:
            try:
                await self._make(self._key(BOOTSTRAP_NAME, frozenset({Scope.ADMIN}), secret), secret, Request.of(""))
            except AlreadyExists:
                pass  # another gateway on the same database was first

    def _key(self, name: str, scopes: frozenset[Scope], secret: str) -> ApiKey:
        return ApiKey(
            id=new_id("key"),
            name=name,
            digest=digest_of(secret),
            hint=secret[: len(PREFIX) + 6],
            scopes=scopes,
            create_time=self._clock.now(),
        )

    async def _make(self, key: ApiKey, secret: str, request: Request) -> NewKey:
        stored = await self._store.create(key, request)
        return NewKey(stored, secret if stored.id == key.id else "")
