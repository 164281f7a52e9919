"""An identity provider in memory: it signs tokens, publishes its keys, and signs people in by the code flow."""

import base64
import hashlib
import json
import secrets
import time
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from gateway_service.adapters.oidc import OidcProvider
from gateway_service.domain.keys.identities import Oidc

ISSUER, AUDIENCE = "https://id.example.com", "ratchet"
CONSOLE = "https://ratchet.example.com/console/"


class Issuer:
    def __init__(self) -> None:
        self.keys: dict[str, Any] = {}
        self.reads = 0
        self.is_away = False
        self.named = ISSUER
        self.secret = ""
        """Of the client; empty: a public one."""
        self.more: dict[str, object] = {"end_session_endpoint": f"{ISSUER}/end?a=b"}
        """Of its metadata."""
        self.reply: httpx.Response | None = None
        """In place of a token."""
        self.codes: dict[str, dict[str, str]] = {}
        """Parameters of each login that was allowed, by its code, for one use."""
        self.add("first")

    def add(self, id: str) -> None:
        self.keys[id] = rsa.generate_private_key(65537, 2048)

    def provider(self, oidc: Oidc) -> OidcProvider:
        return OidcProvider(httpx.AsyncClient(transport=httpx.MockTransport(self.serve)), oidc)

    def serve(self, request: httpx.Request) -> httpx.Response:
        if self.is_away:
            raise httpx.ConnectError("away")
        if request.url.path == "/.well-known/openid-configuration":
            about = {"issuer": self.named, "jwks_uri": f"{ISSUER}/keys", "authorization_endpoint": f"{ISSUER}/auth"}
            return httpx.Response(200, json={**about, "token_endpoint": f"{ISSUER}/token", **self.more})
        if request.url.path == "/token":
            return self.reply or self._exchange(request)
        self.reads += 1
        published = [
            json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key())) | {"kid": id, "alg": "RS256", "use": "sig"}
            for id, key in self.keys.items()
        ]
        return httpx.Response(200, json={"keys": published})

    def token(self, key: Any = None, algorithm: str = "RS256", kid: str = "first", **claims: object) -> str:
        told = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ana", "exp": int(time.time()) + 300} | claims
        given = {name: value for name, value in told.items() if value is not None}
        return jwt.encode(given, key or self.keys[kid], algorithm, {"kid": kid})

    def sign_in(self, url: str, **claims: object) -> dict[str, Any]:
        """Somebody signs in at the address. Gives what the console's address gets."""
        asked = dict(parse_qsl(urlsplit(url).query))
        assert url.startswith(f"{ISSUER}/auth?")
        assert (asked["client_id"], asked["redirect_uri"], asked["response_type"]) == (AUDIENCE, CONSOLE, "code")
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_hex(8)
        self.codes[code] = asked | {"claims": json.dumps(claims)}
        return {"code": code, "state": asked["state"], "iss": ISSUER}

    def _exchange(self, request: httpx.Request) -> httpx.Response:
        sent = {name: values[0] for name, values in parse_qs(request.content.decode()).items()}
        basic = base64.b64encode(f"{AUDIENCE}:{self.secret}".encode()).decode()
        known = request.headers.get("authorization") == f"Basic {basic}" if self.secret else True
        asked = self.codes.pop(sent["code"], None)
        if not known:
            return httpx.Response(401, json={"error": "invalid_client"})
        digest = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if asked is None or (challenge, sent["redirect_uri"]) != (asked["code_challenge"], CONSOLE):
            return httpx.Response(400, json={"error": "invalid_grant", "error_description": "grant request is invalid"})
        token = self.token(nonce=asked["nonce"], **json.loads(asked["claims"]))
        return httpx.Response(200, json={"access_token": "opaque", "token_type": "Bearer", "id_token": token})
