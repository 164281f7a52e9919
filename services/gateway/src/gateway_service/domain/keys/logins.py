"""Logins of people in the console: OpenID Connect's code flow with PKCE, state and nonce.

A login ends with the provider's ID token, which the console sends as it sends a key: it is checked at each request.
"""

import secrets
from dataclasses import dataclass
from urllib.parse import urlsplit

from gateway_service.domain.keys.identities import Flow, Identities
from ratchet_kit.errors import PermissionDenied, Unauthenticated, invalid
from ratchet_kit.logs import get_logger

log = get_logger(__name__)

LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Begun:
    secret: str
    """For the browser that began it alone."""
    url: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Parameters with which the provider sends somebody back."""

    state: str
    code: str = ""
    refusal: str = ""
    """The reason for no code."""


@dataclass(frozen=True, slots=True)
class Session:
    token: str
    logout_url: str


@dataclass(frozen=True, slots=True)
class Logins:
    identities: Identities

    def __post_init__(self) -> None:
        """Raises InvalidArgument."""
        url = urlsplit(self.identities.oidc.console)
        if not url.path.endswith("/console/") or not (self.is_secure or url.hostname in LOOPBACK):
            raise invalid("console", "must be the console's address, such as https://ratchet.example.com/console/")

    @property
    def is_secure(self) -> bool:
        return self.identities.oidc.console.startswith("https://")

    @property
    def provider(self) -> str:
        """Host of the identity provider."""
        return urlsplit(self.identities.oidc.issuer).netloc

    async def begin(self) -> Begun:
        """Raises Unavailable."""
        secret = secrets.token_urlsafe(32)
        return Begun(secret, await self.identities.provider.login_url(Flow(secret)))

    async def finish(self, secret: str, answer: Answer) -> Session:
        """`secret`: of the browser that brings the answer. Raises Unavailable, and PermissionDenied for an answer to
        another browser, a login that the provider refuses, and somebody of no group that has a grant."""
        flow, provider = Flow(secret), self.identities.provider
        if not secret or not secrets.compare_digest(flow.state.encode(), answer.state.encode()):
            raise PermissionDenied("the login was not begun in this browser, or over 10 minutes ago: sign in again")
        if not answer.code:
            raise PermissionDenied(f"the identity provider refuses the login: {answer.refusal or 'it gives no reason'}")
        try:
            token = await provider.token_of(answer.code, flow)
            claims = await provider.claims(token)
        except Unauthenticated as error:
            raise PermissionDenied(f"the login failed, sign in again: {error.message}") from error
        if claims.get("nonce") != flow.nonce:
            raise PermissionDenied("the login failed, sign in again: the token is of another login")
        key = self.identities.key_of(claims)
        log.info("login.done", actor=key.id, name=key.name)
        return Session(token, await provider.logout_url())
