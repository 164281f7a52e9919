"""People who call with a token of the operator's identity provider, in place of an API key."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from gateway_service.domain.keys.key import ApiKey, Scope
from ratchet_kit import projects
from ratchet_kit.errors import PermissionDenied, invalid

TOKEN = "eyJ"
"""The begin of every JSON Web Token, and of no key."""
PERSON = "user_"
"""The begin of the id of somebody who has no key."""


@dataclass(frozen=True, slots=True)
class Oidc:
    """OpenID Connect: who is trusted, and what its groups may do."""

    issuer: str
    """URL, as tokens say it."""
    audience: str
    """Tokens for others are refused."""
    grants: Mapping[str, str]
    """By group, "train" or "train@acme": a scope, or several with "+" between, of the platform's or a project's. The
    first that somebody is in decides: {"ml-leads": "admin", "acme": "train+release@acme"}."""
    claim: str = "groups"
    """The claim with the groups: a text or a list."""
    console: str = ""
    """URL of the console as people reach it, which is the client's redirect URI at the provider:
    "https://ratchet.example.com/console/". The client's id is `audience`. Empty: no login there."""
    client_secret_file: Path | None = None
    """Read at each login. None: a public client."""


@dataclass(frozen=True, slots=True)
class Flow:
    """A login under way. All of it is made of a secret that one browser keeps: gateways store nothing, and what passes
    through addresses is of no use without the browser."""

    secret: str

    @property
    def state(self) -> str:
        return self._made_for("state")

    @property
    def nonce(self) -> str:
        return self._made_for("nonce")

    @property
    def verifier(self) -> str:
        """Code verifier of PKCE (RFC 7636)."""
        return self._made_for("verifier")

    def _made_for(self, use: str) -> str:
        return hashlib.sha256(f"{use}\n{self.secret}".encode()).hexdigest()


class IdentityProvider(Protocol):
    async def claims(self, token: str) -> Mapping[str, object]:
        """Claims of a token that is valid now, "sub" and "exp" among them. Raises Unauthenticated, Unavailable."""
        ...

    async def login_url(self, flow: Flow) -> str:
        """Address where a person signs in, and comes back from with a code. Raises Unavailable."""
        ...

    async def token_of(self, code: str, flow: Flow) -> str:
        """ID token of a code, not checked yet. Raises Unauthenticated, Unavailable."""
        ...

    async def logout_url(self) -> str:
        """Address where a person signs out of the provider; empty where it has none. Raises Unavailable."""
        ...


@dataclass(frozen=True, slots=True)
class Grant:
    scopes: frozenset[Scope]
    project: str = ""
    """Empty: the platform's own."""

    @classmethod
    def parse(cls, text: str) -> "Grant":
        """Raises InvalidArgument."""
        scopes, at, project = text.partition("@")
        if at and not projects.is_name(project):
            raise invalid("grants", f"must name a project of 20 letters and digits at most; not {text!r}")
        try:
            return cls(frozenset(map(Scope, scopes.split("+"))), project)
        except ValueError as error:
            raise invalid("grants", f"must name scopes ({', '.join(Scope)}); not {text!r}") from error


@dataclass(frozen=True, slots=True)
class Identities:
    provider: IdentityProvider
    oidc: Oidc
    grants: Mapping[str, Grant] = field(init=False)

    def __post_init__(self) -> None:
        """Raises InvalidArgument."""
        object.__setattr__(self, "grants", {group: Grant.parse(text) for group, text in self.oidc.grants.items()})

    async def identify(self, token: str) -> ApiKey:
        """Stands for who sent the token, as a key would. Raises Unauthenticated, Unavailable, PermissionDenied for
        somebody of no group that has a grant."""
        return self.key_of(await self.provider.claims(token))

    def key_of(self, claims: Mapping[str, object]) -> ApiKey:
        """Raises PermissionDenied."""
        groups = _texts(claims.get(self.oidc.claim))
        grant = next((grant for group, grant in self.grants.items() if group in groups), None)
        name = str(claims.get("email") or claims.get("name") or claims["sub"])[:200]
        if grant is None:
            raise PermissionDenied(f"{name!r} is in no group that may use this platform (claim {self.oidc.claim!r})")
        end = datetime.fromtimestamp(float(str(claims["exp"])), UTC)
        return ApiKey(_id(self.oidc.issuer, str(claims["sub"]), grant.project), name, "", "", grant.scopes, end)


def _id(issuer: str, subject: str, project: str) -> str:
    """The same for each token of somebody: for limits, the audit log and what they make. It has the form of ids of
    `ratchet_kit.ids`, with the project's mark."""
    digest = hashlib.sha256(f"{issuer}\n{subject}".encode()).hexdigest()[:26].upper()
    return f"{PERSON}{digest}-{project}" if project else f"{PERSON}{digest}"


def _texts(value: object) -> Sequence[str]:
    return [value] if isinstance(value, str) else [str(one) for one in value] if isinstance(value, list) else []
