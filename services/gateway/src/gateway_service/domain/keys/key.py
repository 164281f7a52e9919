"""An API key, its scopes and its secret."""

import hashlib
import secrets
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from ratchet_kit import projects
from ratchet_kit.errors import FailedPrecondition, PermissionDenied, Unauthenticated

PREFIX = "rk_"
MIN_SECRET = 32
"""The fewest characters of a secret that an operator chooses."""


class Scope(StrEnum):
    """INFERENCE: completions and feedback on them. PROGRAMS: programs in the sandbox. READ: looking, but at keys, kept
    traffic and webhooks. TRAIN: runs, evaluations, gates, models, data sets. RELEASE: releases, experiments, aliases.
    ADMIN: everything."""

    INFERENCE = "inference"
    ADMIN = "admin"
    PROGRAMS = "programs"
    READ = "read"
    TRAIN = "train"
    RELEASE = "release"


INCLUDING = {Scope.READ: frozenset({Scope.READ, Scope.TRAIN, Scope.RELEASE})}
"""The scopes that include one, ADMIN aside."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is stored: without its secret."""

    id: str
    name: str
    digest: str
    """sha256 of the secret."""
    hint: str
    """How the secret begins, so that people can tell keys apart."""
    scopes: frozenset[Scope]
    create_time: datetime
    revoke_time: datetime | None = None
    models: frozenset[str] = frozenset()
    """The models that an inference key may call; empty: every one."""
    expire_time: datetime | None = None
    """None: it is valid until it is revoked."""
    actor: str = ""
    """The id of the key that made it; empty for the bootstrap key."""
    revoke_actor: str = ""
    keep_traffic: bool = False
    """Its consent that the prompts, answers and feedback of its requests are kept."""
    monthly_tokens: int = 0
    """Tokens of prompts and answers that it may use in a month; 0: no limit."""

    @property
    def is_admin(self) -> bool:
        return Scope.ADMIN in self.scopes

    @property
    def project(self) -> str:
        """Empty: the platform's own."""
        return projects.project_of(self.id)

    @property
    def view(self) -> str:
        """The project whose things it sees; empty for an administrator of the platform, who sees all."""
        return self.project or ("" if self.is_admin else projects.DEFAULT)

    @property
    def is_operator(self) -> bool:
        """An administrator of the platform, and not of a project alone."""
        return not self.view

    def require(self, scope: Scope) -> None:
        """Raises PermissionDenied unless the key has the scope."""
        if not self.is_admin and self.scopes.isdisjoint(INCLUDING.get(scope, {scope})):
            raise PermissionDenied(f"this needs an API key of scope {scope}; {self.name!r} has {self._scope_names()}")

    def may_call(self, model: str) -> bool:
        return self.is_admin or not self.models or model in self.models

    def require_model(self, model: str) -> None:
        """Raises PermissionDenied unless the key may call the model."""
        if not self.may_call(model):
            raise PermissionDenied(f"{self.name!r} is an API key for other models than {model}")

    def require_own(self, completion_id: str, key_id: str) -> None:
        """Raises PermissionDenied for a completion of another key. An id is no secret: those of one gateway follow one
        another."""
        if not (self.is_admin and self._oversees(key_id)) and self.id != key_id:
            raise PermissionDenied(f"completion {completion_id} is of another API key")

    def check_valid(self, now: datetime) -> None:
        """Raises Unauthenticated when it was revoked or has expired."""
        if self.revoke_time:
            raise Unauthenticated("the API key is not known or was revoked")
        if self.expire_time and now >= self.expire_time:
            raise Unauthenticated("the API key has expired")

    def revoke(self, now: datetime, actor: str = "") -> "ApiKey":
        """Idempotent: the first revocation stands."""
        return self if self.revoke_time else replace(self, revoke_time=now, revoke_actor=actor)

    def set_traffic(self, keep: bool) -> "ApiKey":
        """Gives or withdraws consent. Raises FailedPrecondition when the key was revoked."""
        if self.revoke_time:
            raise FailedPrecondition(f"API key {self.id} was revoked")
        return replace(self, keep_traffic=keep)

    def _oversees(self, key_id: str) -> bool:
        return projects.owned_by(key_id, self.view) if self.view else True

    def _scope_names(self) -> str:
        return ", ".join(sorted(self.scopes))


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made."""

    key: ApiKey
    secret: str
    """Not stored: this is the only time that it is known. Empty for a request that was sent before."""


def new_secret() -> str:
    """256 random bits."""
    return PREFIX + secrets.token_hex(32)


def digest_of(secret: str) -> str:
    """Plain sha256. A slow, salted hash protects passwords, which can be guessed; 256 random bits cannot, and a fast
    digest can be looked up by an index at each request."""
    return hashlib.sha256(secret.encode()).hexdigest()
