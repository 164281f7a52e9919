"""Tokens of an identity provider, whose documents the test serves."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from gateway_service.adapters import oidc
from gateway_service.adapters.oidc import OidcProvider
from ratchet_kit.errors import Unauthenticated, Unavailable

ISSUER, AUDIENCE = "https://id.example.com", "ratchet"


class Issuer:
    """Signs tokens, and publishes its keys."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {}
        self.reads = 0
        self.is_away = False
        self.named = ISSUER
        self.add("first")

    def add(self, id: str) -> None:
        self.keys[id] = rsa.generate_private_key(65537, 2048)

    def serve(self, request: httpx.Request) -> httpx.Response:
        if self.is_away:
            raise httpx.ConnectError("away")
        if request.url.path == "/.well-known/openid-configuration":
            return httpx.Response(200, json={"issuer": self.named, "jwks_uri": f"{ISSUER}/keys"})
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


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def provider(issuer: Issuer) -> OidcProvider:
    return OidcProvider(httpx.AsyncClient(transport=httpx.MockTransport(issuer.serve)), ISSUER, AUDIENCE)


async def test_a_token_is_taken_by_the_keys_of_its_issuer(issuer: Issuer, provider: OidcProvider) -> None:
    for _ in range(3):
        assert (await provider.claims(issuer.token(groups=["a"])))["groups"] == ["a"]
    assert issuer.reads == 1
    assert (await provider.claims(issuer.token(aud=["other", AUDIENCE])))["sub"] == "ana"


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://other.example.com"},
        {"iss": None},
        {"aud": "other"},
        {"aud": None},
        {"exp": 1_000_000_000},
        {"exp": None},
        {"nbf": 4_000_000_000},
        {"sub": None},
    ],
)
async def test_wrong_claims_are_refused(issuer: Issuer, provider: OidcProvider, claims: Mapping[str, object]) -> None:
    with pytest.raises(Unauthenticated, match="the token is not valid"):
        await provider.claims(issuer.token(**claims))


def unsigned(token: str, algorithm: str) -> str:
    header = base64.urlsafe_b64encode(json.dumps({"alg": algorithm, "kid": "first"}).encode()).decode().rstrip("=")
    return f"{header}.{token.split('.')[1]}."


async def test_forged_signatures_are_refused(issuer: Issuer, provider: OidcProvider) -> None:
    public = issuer.keys["first"].public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    claims = json.dumps({"iss": ISSUER, "aud": AUDIENCE, "sub": "ana", "exp": time.time() + 300}).encode()
    forged = [
        unsigned(issuer.token(), "none"),
        unsigned(issuer.token(), "RS256"),
        issuer.token(rsa.generate_private_key(65537, 2048)),
        issuer.token(ec.generate_private_key(ec.SECP256R1()), "ES256"),
        issuer.token("x" * 64, "HS256"),
        _hs256(pem, claims),
        issuer.token()[:-4] + "AAAA",
        "eyJ",
        "eyJ.a.b",
    ]
    for token in forged:
        with pytest.raises(Unauthenticated):
            await provider.claims(token)


def _hs256(secret: bytes, claims: bytes) -> str:
    """By hand: the library itself signs with no public key."""

    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    head = f"{part(json.dumps({'alg': 'HS256', 'kid': 'first'}).encode())}.{part(claims)}"
    return f"{head}.{part(hmac.new(secret, head.encode(), hashlib.sha256).digest())}"


async def test_new_keys_are_read_when_a_token_names_one(
    issuer: Issuer, provider: OidcProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    await provider.claims(issuer.token())
    issuer.add("second")
    with pytest.raises(Unauthenticated, match="does not publish"):
        await provider.claims(issuer.token(kid="second"))
    assert issuer.reads == 1, "strangers' tokens cost the provider no read each"
    monkeypatch.setattr(oidc, "PAUSE", 0.0)
    assert await provider.claims(issuer.token(kid="second"))
    old = issuer.token()
    del issuer.keys["first"]
    monkeypatch.setattr(oidc, "KEEP", 0.0)
    with pytest.raises(Unauthenticated, match="does not publish"):
        await provider.claims(old)
    issuer.is_away = True
    assert await provider.claims(issuer.token(kid="second")), "known keys hold while the provider is away"


@pytest.mark.parametrize("fault", ["away", "another"])
async def test_a_provider_that_is_away_is_no_fault_of_the_token(
    issuer: Issuer, provider: OidcProvider, fault: str
) -> None:
    issuer.is_away, issuer.named = fault == "away", "https://other.example.com"
    with pytest.raises(Unavailable):
        await provider.claims(issuer.token())
