"""IdentityProvider by OpenID Connect: tokens are checked by the keys that the issuer publishes; people sign in by its
code flow with PKCE."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping

import httpx
import jwt
from authlib.common.urls import add_params_to_uri
from authlib.oauth2 import OAuth2Client, OAuth2Error
from authlib.oauth2.rfc6749.parameters import prepare_token_request

from gateway_service.domain.keys.identities import Flow, Oidc
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
SCOPES = ("openid", "email", "profile")
HEADERS = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}


class OidcProvider:
    def __init__(self, http: httpx.AsyncClient, oidc: Oidc) -> None:
        self._http = http
        self._oidc = oidc
        self._about: Mapping[str, object] = {}
        """The provider's metadata (OpenID Connect Discovery 1.0, section 3)."""
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
                audience=self._oidc.audience,
                issuer=self._oidc.issuer,
                leeway=LEEWAY,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as error:
            raise Unauthenticated(f"the token is not valid: {error}") from error
        return claims

    async def login_url(self, flow: Flow) -> str:
        about = await self._metadata()
        known = about.get("scopes_supported")
        # Some providers tell groups to who asks for them by a scope of that name, and refuse a scope that they lack.
        wanted = (*SCOPES, self._oidc.claim)
        scopes = [scope for scope in wanted if scope in known] if isinstance(known, list) else SCOPES
        # By the standard a scope's claims are told apart from the token, unless they are asked for by name.
        named = {"id_token": dict.fromkeys(("email", "name", self._oidc.claim))}
        more = {"claims": json.dumps(named)} if about.get("claims_parameter_supported") is True else {}
        url, _ = self._client().create_authorization_url(
            str(about["authorization_endpoint"]),
            state=flow.state,
            nonce=flow.nonce,
            code_verifier=flow.verifier,
            scope=" ".join(scopes),
            **more,
        )
        return str(url)

    async def token_of(self, code: str, flow: Flow) -> str:
        client, url = self._client(), str((await self._metadata())["token_endpoint"])
        body = prepare_token_request(
            "authorization_code", code=code, redirect_uri=client.redirect_uri, code_verifier=flow.verifier
        )
        auth = client.client_auth(client.token_endpoint_auth_method)
        url, headers, body = auth.prepare("POST", url, dict(HEADERS), body)
        try:
            reply = await self._http.post(url, headers=headers, content=body)
            return str(client.parse_response_token(reply)["id_token"])
        except OAuth2Error as error:
            log.warning("login.refused", issuer=self._oidc.issuer, reason=str(error))
            raise Unauthenticated(f"the identity provider does not take the code: {error}") from error
        except (httpx.HTTPError, ValueError, KeyError) as error:
            log.warning("login.failed", issuer=self._oidc.issuer, reason=str(error))
            raise Unavailable("the identity provider gives no token for the code") from error

    async def logout_url(self) -> str:
        """By RP-Initiated Logout 1.0, without the token: addresses are kept in too many places."""
        end = str((await self._metadata()).get("end_session_endpoint", ""))
        here = [("client_id", self._oidc.audience), ("post_logout_redirect_uri", self._oidc.console)]
        return str(add_params_to_uri(end, here)) if end else ""

    def _client(self) -> OAuth2Client:
        file = self._oidc.client_secret_file
        try:
            secret = file.read_text().strip() if file else None
        except OSError as error:
            log.error("login.no_secret", file=str(file), reason=str(error))
            raise Unavailable("the client's secret cannot be read") from error
        return OAuth2Client(
            None, self._oidc.audience, secret, redirect_uri=self._oidc.console, code_challenge_method="S256"
        )

    async def _metadata(self) -> Mapping[str, object]:
        await self._freshen(lambda: not self._about)
        return self._about

    async def _key(self, id: str) -> jwt.PyJWK:
        await self._freshen(lambda: id not in self._keys)
        if id not in self._keys:
            raise Unauthenticated("the token is not valid: it is signed by a key that its issuer does not publish")
        return self._keys[id]

    async def _freshen(self, lacks: Callable[[], bool]) -> None:
        """Raises Unavailable."""
        async with self._reading:
            age = time.monotonic() - self._read_time
            if age >= KEEP or (lacks() and age >= PAUSE):
                await self._read()
        if not self._keys:
            raise Unavailable("the identity provider cannot be reached")

    async def _read(self) -> None:
        """The issuer publishes new keys before it signs with them, and takes old ones back."""
        self._read_time = time.monotonic()
        try:
            about = await self._json(f"{self._oidc.issuer.rstrip('/')}/.well-known/openid-configuration")
            if about.get("issuer") != self._oidc.issuer:
                raise ValueError(f"it says that it is {about.get('issuer')!r}")
            found = jwt.PyJWKSet.from_dict(await self._json(str(about["jwks_uri"])))
        except (httpx.HTTPError, jwt.PyJWTError, ValueError, KeyError) as error:
            log.warning("identities.not_read", issuer=self._oidc.issuer, reason=str(error))
            return
        self._about = about
        self._keys = {str(key.key_id or ""): key for key in found.keys}

    async def _json(self, url: str) -> dict[str, object]:
        reply = await self._http.get(url)
        reply.raise_for_status()
        found = reply.json()
        if not isinstance(found, dict):
            raise ValueError(f"{url} holds no object")
        return found
