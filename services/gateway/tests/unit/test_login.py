"""Logins in the console by an identity provider: what binds them to one browser, and what they end with."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from gateway_service.domain.keys.identities import Oidc
from gateway_service.rest.door import MAX_OPEN_BODY_BYTES
from ratchet_kit.errors import InvalidArgument

from ..issuer import AUDIENCE, CONSOLE, ISSUER, Issuer
from ..world import World

OIDC = Oidc(ISSUER, AUDIENCE, {"leads": "admin@acme", "lookers": "read"}, console=CONSOLE)
COOKIE = "__Host-ratchet-login"


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
async def gateway(world: World, issuer: Issuer) -> World:
    world.settings = world.settings.model_copy(update={"oidc": OIDC})
    world.identities = issuer.provider(OIDC)
    await world.start()
    return world


@asynccontextmanager
async def browser(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """Without a key, and with cookies of its own."""
    async with world.http() as http:
        del http.headers["Authorization"]
        http.base_url = "https://ratchet.example.com"
        yield http


async def begin(http: httpx.AsyncClient) -> str:
    return str((await http.post("/login")).json()["url"])


async def finish(http: httpx.AsyncClient, answer: dict[str, Any]) -> httpx.Response:
    return await http.post("/login/token", json=answer)


async def test_a_login_ends_with_a_token_in_place_of_a_key(gateway: World, issuer: Issuer) -> None:
    async with browser(gateway) as http:
        assert (await http.get("/login")).json() == {"provider": "id.example.com"}
        reply = await finish(http, issuer.sign_in(await begin(http), groups=["leads"]))
        assert reply.status_code == 200
        assert reply.headers["cache-control"] == "no-store"
        assert reply.json()["logout_url"].startswith(f"{ISSUER}/end?")
        assert list(http.cookies) == [], "it is of no more use"
        http.headers["Authorization"] = f"Bearer {reply.json()['token']}"
        assert (await http.get("/api/v1/keys")).json()["keys"] == [], "of project acme"


async def test_the_cookie_is_of_this_page_alone_and_no_script_reads_it(gateway: World) -> None:
    async with browser(gateway) as http:
        begun = await http.post("/login")
    (cookie,) = SimpleCookie(begun.headers["set-cookie"]).values()
    assert cookie.key == COOKIE
    assert (cookie["secure"], cookie["httponly"], cookie["domain"]) == (True, True, "")
    assert (cookie["samesite"], cookie["path"], cookie["max-age"]) == ("strict", "/", "600")
    assert begun.headers["cache-control"] == "no-store"
    assert cookie.value not in begun.json()["url"], "what passes through addresses does not reveal it"


async def test_on_loopback_there_may_be_no_tls(world: World, issuer: Issuer) -> None:
    oidc = replace(OIDC, console="http://127.0.0.1:8700/console/")
    world.settings = world.settings.model_copy(update={"oidc": oidc})
    world.identities = issuer.provider(oidc)
    await world.start()
    async with world.http() as http:
        sent = (await http.post("/login")).headers["set-cookie"]
    assert sent.startswith("ratchet-login=")
    assert "Secure" not in sent


async def test_an_answer_to_another_browser_opens_nothing(gateway: World, issuer: Issuer) -> None:
    """Fixation, CSRF: neither somebody's link, nor a page elsewhere, signs others in as him."""
    async with browser(gateway) as attacker, browser(gateway) as victim:
        answer = issuer.sign_in(await begin(attacker), groups=["leads"])
        assert (await finish(victim, answer)).status_code == 403
        own = issuer.sign_in(await begin(victim), groups=["leads"])
        for mixed in (answer, answer | {"state": ""}, answer | {"state": "ü"}, own | {"state": answer["state"]}):
            reply = await finish(victim, mixed)
            assert reply.status_code == 403
            assert "not begun in this browser" in reply.json()["error"]["message"]
        assert answer["code"] in issuer.codes, "the provider is not asked"
        reply = await finish(victim, own | {"code": answer["code"]})
        assert (reply.status_code, "token" in reply.json()) == (403, False), "PKCE: the code is of another login"


async def test_a_token_of_another_login_is_refused(gateway: World, issuer: Issuer) -> None:
    for nonce in ("of another", None):
        issuer.reply = httpx.Response(200, json={"id_token": issuer.token(groups=["leads"], nonce=nonce)})
        async with browser(gateway) as http:
            reply = await finish(http, issuer.sign_in(await begin(http)))
        assert (reply.status_code, "of another login" in reply.text) == (403, True)


async def test_an_answer_opens_once(gateway: World, issuer: Issuer) -> None:
    async with browser(gateway) as http:
        answer = issuer.sign_in(await begin(http), groups=["leads"])
        kept = dict(http.cookies)
        assert (await finish(http, answer)).status_code == 200
        assert (await finish(http, answer)).status_code == 403
        http.cookies.update(kept)
        reply = await finish(http, answer)
        assert (reply.status_code, "invalid_grant" in reply.text) == (403, True)


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"groups": ["others"]}, "'ana' is in no group that may use this platform (claim 'groups')"),
        ({"groups": ["leads"], "aud": "other"}, "the token is not valid"),
        ({"groups": ["leads"], "iss": "https://other.example.com"}, "the token is not valid"),
        ({"groups": ["leads"], "exp": 1_000_000_000}, "the token is not valid"),
    ],
)
async def test_who_may_not_enter_is_told_why(gateway: World, issuer: Issuer, claims: Any, said: str) -> None:
    async with browser(gateway) as http:
        reply = await finish(http, issuer.sign_in(await begin(http), **claims))
    assert reply.status_code == 403
    assert said in reply.json()["error"]["message"]


async def test_a_refusal_of_the_provider_is_said_to_who_asked(gateway: World) -> None:
    refused = {"error": "access_denied", "error_description": "End-User aborted"}
    async with browser(gateway) as http:
        state = parse_qs(urlsplit(await begin(http)).query)["state"][0]
        said = (await finish(http, refused | {"state": state})).json()["error"]["message"]
        assert said == "the identity provider refuses the login: access_denied: End-User aborted"
        strangers = await finish(http, {"state": "x", "error": "x", "error_description": "call 555"})
        assert "555" not in strangers.text


async def test_a_provider_that_is_away_is_said(gateway: World, issuer: Issuer) -> None:
    issuer.is_away = True
    async with browser(gateway) as http:
        assert (await http.post("/login")).status_code == 503
        assert (await http.get("/login")).status_code == 200


async def test_what_strangers_send_is_small(gateway: World) -> None:
    async with browser(gateway) as http:
        assert (await finish(http, {"state": "s" * 129})).status_code == 400
        assert (await finish(http, {"state": "s", "code": "c" * 8193})).status_code == 400
        assert (await finish(http, {"state": "s", "more": "x" * MAX_OPEN_BODY_BYTES})).status_code == 413


async def test_addresses_are_the_operators(gateway: World) -> None:
    """No open redirect: a caller's Host and parameters lead nowhere."""
    async with browser(gateway) as http:
        begun = await http.post("/login?redirect_uri=https://evil.example.com", headers={"Host": "evil.example.com"})
    assert parse_qs(urlsplit(begun.json()["url"]).query)["redirect_uri"] == [CONSOLE]


@pytest.mark.parametrize(
    "console", ["http://ratchet.example.com/console/", "https://ratchet.example.com/", "/console/"]
)
async def test_an_address_that_is_not_safe_stops_the_start(world: World, issuer: Issuer, console: str) -> None:
    oidc = replace(OIDC, console=console)
    world.settings = world.settings.model_copy(update={"oidc": oidc})
    world.identities = issuer.provider(oidc)
    with pytest.raises(InvalidArgument, match="must be the console's address"):
        await world.start()


@pytest.mark.parametrize("auth", ["on", "off"])
async def test_without_one_there_is_no_login(world: World, issuer: Issuer, auth: str) -> None:
    oidc = replace(OIDC, console=CONSOLE if auth == "off" else "")
    world.settings = world.settings.model_copy(update={"oidc": oidc, "auth": auth})
    world.identities = issuer.provider(oidc)
    await world.start()
    async with world.http() as http:
        assert (await http.get("/login")).json() == {"provider": ""}
        assert (await http.post("/login")).status_code == 405
