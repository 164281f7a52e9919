"""Tokens of an identity provider, whose documents the test serves."""

import base64
import dataclasses
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from gateway_service.adapters import oidc
from gateway_service.adapters.oidc import OidcProvider
from gateway_service.domain.keys.identities import Flow, Oidc
from ratchet_kit.errors import Unauthenticated, Unavailable

from ..issuer import AUDIENCE, CONSOLE, ISSUER, Issuer

OIDC = Oidc(ISSUER, AUDIENCE, {"ml-leads": "admin"}, console=CONSOLE)
FLOW = Flow("secret")


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def provider(issuer: Issuer) -> OidcProvider:
    return issuer.provider(OIDC)


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
    for _ in range(2):
        with pytest.raises(Unavailable):
            await provider.claims(issuer.token())
        with pytest.raises(Unavailable):
            await provider.login_url(FLOW)


async def asked(issuer: Issuer, **more: object) -> dict[str, list[str]]:
    issuer.more |= more
    return parse_qs(urlsplit(await issuer.provider(OIDC).login_url(FLOW)).query)


async def test_a_login_asks_for_what_the_provider_has(issuer: Issuer) -> None:
    assert (await asked(issuer))["scope"] == ["openid email profile"]
    assert "claims" not in await asked(issuer, scopes_supported=["openid", "groups", "offline_access"])
    assert (await asked(issuer))["scope"] == ["openid groups"]
    claims = (await asked(issuer, claims_parameter_supported=True))["claims"]
    assert json.loads(claims[0])["id_token"].keys() == {"email", "name", "groups"}


async def test_a_code_becomes_a_token_once_and_by_its_verifier(issuer: Issuer, provider: OidcProvider) -> None:
    code = issuer.sign_in(await provider.login_url(FLOW))["code"]
    with pytest.raises(Unauthenticated, match="grant request is invalid"):
        await provider.token_of(code, Flow("of another browser"))
    code = issuer.sign_in(await provider.login_url(FLOW))["code"]
    assert (await provider.claims(await provider.token_of(code, FLOW)))["nonce"] == FLOW.nonce
    with pytest.raises(Unauthenticated, match="invalid_grant"):
        await provider.token_of(code, FLOW)


async def test_the_clients_secret_is_read_anew(issuer: Issuer, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    provider = issuer.provider(dataclasses.replace(OIDC, client_secret_file=file))
    with pytest.raises(Unavailable, match="secret cannot be read"):
        await provider.login_url(FLOW)
    for issuer.secret in ("first", "second"):
        file.write_text(f"{issuer.secret}\n")
        assert await provider.token_of(issuer.sign_in(await provider.login_url(FLOW))["code"], FLOW)
    issuer.secret = "third"
    with pytest.raises(Unauthenticated, match="invalid_client"):
        await provider.token_of(issuer.sign_in(await provider.login_url(FLOW))["code"], FLOW)


@pytest.mark.parametrize(
    "reply",
    [
        httpx.Response(502, text="<html>"),
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json=["no"]),
        httpx.Response(200, json={"access_token": "alone"}),
    ],
    ids=["502", "html", "list", "no id_token"],
)
async def test_a_provider_that_gives_no_token(issuer: Issuer, provider: OidcProvider, reply: httpx.Response) -> None:
    issuer.reply = reply
    reply.request = httpx.Request("POST", f"{ISSUER}/token")
    with pytest.raises(Unavailable, match="gives no token"):
        await provider.token_of("code", FLOW)


async def test_a_logout_leads_through_the_provider_and_back(issuer: Issuer, provider: OidcProvider) -> None:
    query = parse_qs(urlsplit(await provider.logout_url()).query)
    assert query == {"a": ["b"], "client_id": [AUDIENCE], "post_logout_redirect_uri": [CONSOLE]}
    issuer.more.clear()
    assert await issuer.provider(OIDC).logout_url() == ""
