"""IdentityProvider by OpenID Connect: tokens are checked by the keys that the issuer publishes."""

import asyncio
import time
from collections.abc import Mapping

import httpx
import jwt

from ratchet_kit.errors import Unauthenticated, Unavailable
from ratchet_kit.logs import get_logger

log = get_logger(__name__)

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures by a private key alone: "none" is no signature, and a public key is no secret (HS256)."""
KEEP = 3600.0
"""Seconds until the keys are read again."""
PAUSE = 30.0
"""Seconds between two reads for a key that is not known: tokens of strangers cost the provider nothing."""
LEEWAY = 60
"""Seconds that clocks may differ by."""


class OidcProvider:
    def __init__(self, http: httpx.AsyncClient, issuer: str, audience: str) -> None:
        self._http = http
        self._issuer = issuer
        self._audience = audience
        self._keys: dict[str, jwt.PyJWK] = {}
        self._read_time = -KEEP
        self._reading = asyncio.Lock()

    async def claims(self, token: str) -> Mapping[str, object]:
        try:
            key = await self._key(str(jwt.get_unverified_header(token).get("kid", "")))
            claims: Mapping[str, object] = jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                audience=self._audience,
                issuer=self._issuer,
                leeway=LEEWAY,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as error:
            raise Unauthenticated(f"the token is not valid: {error}") from error
        return claims

    async def _key(self, id: str) -> jwt.PyJWK:
        async with self._reading:
            age = time.monotonic() - self._read_time
            if age >= KEEP or (id not in self._keys and age >= PAUSE):
                await self._read()
        if id not in self._keys:
            raise Unauthenticated("the token is not valid: it is signed by a key that its issuer does not publish")
        return self._keys[id]

    async def _read(self) -> None:
        """The issuer publishes new keys before it signs with them, and takes old ones back. Raises Unavailable if no
        keys are known."""
        self._read_time = time.monotonic()
        try:
            about = await self._json(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
            if about.get("issuer") != self._issuer:
                raise ValueError(f"it says that it is {about.get('issuer')!r}")
            found = jwt.PyJWKSet.from_dict(await self._json(str(about["jwks_uri"])))
        except (httpx.HTTPError, jwt.PyJWTError, ValueError, KeyError) as error:
            log.warning("identities.not_read", issuer=self._issuer, reason=str(error))
            if not self._keys:
                raise Unavailable("the identity provider's keys cannot be read") from error
            return
        self._keys = {str(key.key_id or ""): key for key in found.keys}

    async def _json(self, url: str) -> dict[str, object]:
        reply = await self._http.get(url)
        reply.raise_for_status()
        found = reply.json()
        if not isinstance(found, dict):
            raise ValueError(f"{url} holds no object")
        return found
