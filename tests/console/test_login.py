"""People sign in by an identity provider: node-oidc-provider in a process of its own, the gateway, a real Chromium."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from ratchet_testing import free_port

from .conftest import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / ".venvs/oidc/node_modules/oidc-provider/lib/index.js"
MEMBERS = {"ana": ["ml-leads"], "ben": ["lookers"], "eve": ["others"]}
SECRET = "s" * 40
GRANTS = {"ml-leads": "admin@acme", "lookers": "read"}


@dataclass(frozen=True)
class Place:
    console: str
    issuer: str


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    node = shutil.which("node")
    if node is None or not LIBRARY.exists():
        pytest.skip("there is no identity provider: make console-test, with node")
    folder = tmp_path_factory.mktemp("login")
    own, gateway, grpc = free_port(), free_port(), free_port()
    place = Place(f"http://127.0.0.1:{gateway}/console/", f"http://127.0.0.1:{own}")
    (folder / "secret").write_text(SECRET)
    oidc = {"issuer": place.issuer, "audience": "ratchet", "grants": GRANTS, "console": place.console}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RATCHET_")} | {
        "RATCHET_HOME": str(folder),
        "RATCHET_GATEWAY_HTTP_PORT": str(gateway),
        "RATCHET_GATEWAY_PORT": str(grpc),
        "RATCHET_GATEWAY_OIDC": json.dumps(oidc | {"client_secret_file": str(folder / "secret")}),
    }
    provider = [
        node,
        str(Path(__file__).with_name("identity_provider.mjs")),
        str(LIBRARY),
        str(own),
        place.console,
        SECRET,
    ]
    started: list[subprocess.Popen[bytes]] = []
    with (folder / "log").open("w") as log:
        try:
            for command in ([*provider, json.dumps(MEMBERS)], [sys.executable, "-m", "gateway_service.main"]):
                started += [subprocess.Popen(command, env=environment, stdout=log, stderr=log)]
            until(lambda: answers(f"{place.issuer}/.well-known/openid-configuration") and answers(place.console))
            yield place
        finally:
            for process in started:
                process.terminate()
                process.wait(30)


def answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.TransportError:
        return False


@pytest.fixture
def page(chromium: Any, place: Place) -> Iterator[Any]:
    context = chromium.new_context()
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.goto(f"{place.console}#/keys")
    yield page
    context.close()


def begin(page: Any) -> None:
    page.get_by_role("button", name="Sign in with 127.0.0.1").click()


def sign_in(page: Any, name: str) -> None:
    begin(page)
    page.get_by_placeholder("Enter any login").fill(name)
    page.get_by_placeholder("and password").fill("x")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()


def test_a_person_signs_in_and_out(page: Any, place: Place) -> None:
    sign_in(page, "ana")
    page.get_by_role("heading", name="Keys").wait_for()
    assert page.url == f"{place.console}#/keys", "where they were, and nothing of the login"
    token = page.evaluate("sessionStorage.getItem('ratchet.key')")
    own = httpx.get(f"{place.console}../api/v1/keys", headers={"Authorization": f"Bearer {token}"})
    assert own.json()["keys"] == [], "of project acme, which has none"
    assert [cookie for cookie in page.context.cookies() if "ratchet" in cookie["name"]] == []
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="Yes, sign me out").click()
    page.get_by_role("heading", name="Sign in").wait_for()
    assert page.evaluate("sessionStorage.length") == 0
    begin(page)
    page.get_by_placeholder("Enter any login").wait_for()


def test_a_reader_reads(page: Any, place: Place) -> None:
    sign_in(page, "ben")
    page.get_by_text("this needs an API key of scope admin").wait_for()


def test_who_has_no_role_is_told_so(page: Any, place: Place) -> None:
    sign_in(page, "eve")
    page.get_by_text("'eve@example.com' is in no group that may use this platform").wait_for()
    assert page.evaluate("sessionStorage.getItem('ratchet.key')") is None


def test_what_the_provider_refuses_is_said(page: Any, place: Place) -> None:
    begin(page)
    page.get_by_role("link", name="Cancel").click()
    page.get_by_text("the identity provider refuses the login: access_denied").wait_for()
    assert page.url == place.console
    page.get_by_role("button", name="Sign in with").wait_for()


def test_an_answer_of_another_browser_opens_nothing(page: Any, place: Place, chromium: Any) -> None:
    """Somebody sends a link that would sign others in as him."""
    returned = re.compile(re.escape(place.console) + r"\?.*code=")
    page.route(returned, lambda route: route.abort())
    with page.expect_request(returned) as sent:
        sign_in(page, "ana")
    context = chromium.new_context()
    victim = context.new_page()
    victim.goto(sent.value.url)
    victim.get_by_text("the login was not begun in this browser").wait_for()
    assert victim.evaluate("sessionStorage.length") == 0
    context.close()
