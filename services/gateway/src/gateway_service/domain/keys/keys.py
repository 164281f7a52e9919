"""API keys: who may call, and what."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from gateway_service.domain.ports import KeyStore
from ratchet_kit.errors import AlreadyExists, FieldViolation, InvalidArgument, PermissionDenied, Unauthenticated
from ratchet_kit.ids import new_id
from ratchet_kit.times import Clock

PREFIX = "rk_"
BOOTSTRAP_NAME = "bootstrap"


class Scope(StrEnum):
    """INFERENCE: completions and feedback on them. ADMIN: everything."""

    INFERENCE = "inference"
    ADMIN = "admin"


@dataclass(frozen=True)
class ApiKey:
    """A key as it is stored: never its secret. `hint` is the secret's beginning, for people to tell keys apart."""

    id: str
    name: str
    digest: str
    hint: str
    scopes: frozenset[Scope]
    create_time: datetime
    revoke_time: datetime | None = None

    def require(self, scope: Scope) -> None:
        """Raises PermissionDenied unless the key has the scope."""
        if scope not in self.scopes and Scope.ADMIN not in self.scopes:
            raise PermissionDenied(f"this needs an API key of scope {scope}; {self.name!r} has {self._scope_names()}")

    def revoke(self, now: datetime) -> "ApiKey":
        """Idempotent: the first revocation stands."""
        return self if self.revoke_time else replace(self, revoke_time=now)

    def _scope_names(self) -> str:
        return ", ".join(sorted(self.scopes))


@dataclass(frozen=True)
class NewKey:
    """The only moment at which a secret is known here."""

    key: ApiKey
    secret: str


def new_secret() -> str:
    """256 random bits."""
    return PREFIX + secrets.token_hex(32)


def digest_of(secret: str) -> str:
    """Plain sha256: a slow, salted hash protects passwords because people choose guessable ones; nobody can guess
    256 random bits, and a fast digest can be looked up by index at each request."""
    return hashlib.sha256(secret.encode()).hexdigest()


class KeyRing:
    """Makes, checks and revokes keys."""

    def __init__(self, store: KeyStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def create(self, name: str, scopes: Sequence[str]) -> NewKey:
        """Raises InvalidArgument naming the field at fault."""
        if not name:
            raise InvalidArgument("a key needs a name", [FieldViolation("name", "must not be empty")])
        known = [scope.value for scope in Scope]
        unknown = [scope for scope in scopes if scope not in known]
        if unknown or not scopes:
            text = f"must be of {', '.join(known)}"
            raise InvalidArgument(f"scopes {text}", [FieldViolation("scopes", text)])
        return await self._add(name, frozenset(Scope(scope) for scope in scopes), new_secret())

    async def authenticate(self, secret: str) -> ApiKey:
        """The key of a secret. Raises Unauthenticated when there is none, or no more."""
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


class Doorkeeper:
    """Decides who gets in; without a key ring, everyone may do everything."""

    def __init__(self, keys: KeyRing | None) -> None:
        self._keys = keys

    async def admit(self, secret: str, scope: Scope) -> None:
        """Raises Unauthenticated or PermissionDenied."""
        if self._keys is None:
            return
        if not secret:
            raise Unauthenticated("an API key is needed: Authorization: Bearer rk_...")
        (await self._keys.authenticate(secret)).require(scope)
