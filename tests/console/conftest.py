"""The console in a real Chromium, over a platform of real services: `make console-test`."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from ratchet_client import Client

from ..e2e.conftest import Platform, client, running
from . import traffic

__all__ = ["client"]

PRICES = '{"currency": "EUR", "cpu_hour": 36, "million_prompt_tokens": 1000}'

PICTURES = os.environ.get("RATCHET_PICTURES")
"""A folder for screenshots: those of docs/console.md are made by `RATCHET_PICTURES=docs/console make console-test`."""


@dataclass(frozen=True)
class Screen:
    """A page of the browser, signed in. What it does wrong by itself fails the test."""

    page: Any
    url: str

    def show(self, view: str = "") -> None:
        self.page.goto(f"{self.url}/console/#/{view}")

    def picture(self, name: str, *, dark: bool = False) -> None:
        if PICTURES:
            self.page.emulate_media(color_scheme="dark" if dark else "light")
            self.page.wait_for_timeout(300)  # charts are drawn anew
            self.page.screenshot(path=Path(PICTURES) / f"{name}.png", full_page=True)


@pytest.fixture(scope="session")
def platform() -> Iterator[Platform]:
    """Its operator has set prices."""
    with running({"RATCHET_PRICES": PRICES}) as platform:
        yield platform


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make console-test")
    program = os.environ.get("RATCHET_CHROMIUM") or shutil.which("chromium")
    if program is None:
        pytest.skip("there is no Chromium: apt-get install chromium, or name one in RATCHET_CHROMIUM")
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, chromium_sandbox=os.getuid() != 0, args=[*quiet, "--disable-quic"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def known(platform: Platform) -> None:
    with platform.client() as client:
        traffic.register(platform, client)


@pytest.fixture
def url(client: Client) -> str:
    return client.url


@pytest.fixture
def stranger(chromium: Any, url: str) -> Iterator[Screen]:
    """A new browser at the console, not signed in."""
    faults: list[str] = []
    context = chromium.new_context(viewport={"width": 1180, "height": 900}, color_scheme="light")
    page = context.new_page()
    page.set_default_timeout(30_000)
    page.on("pageerror", lambda error: faults.append(f"exception: {error}"))

    def look(said: Any) -> None:
        if said.type == "error":
            faults.append(f"console: {said.text}")

    def follow(sent: Any) -> None:
        if urlsplit(sent.url).netloc != urlsplit(url).netloc:
            faults.append(sent.url)

    page.on("console", look)
    page.on("request", follow)
    page.goto(f"{url}/console/")
    yield Screen(page, url)
    context.close()
    # Chromium logs each call that failed; those are looked at where they are shown.
    assert [fault for fault in faults if "Failed to load resource" not in fault] == []


@pytest.fixture
def screen(stranger: Screen, platform: Platform) -> Screen:
    sign_in(stranger, platform.home.admin_key())
    stranger.page.get_by_role("heading", name="Health").wait_for()
    return stranger


def sign_in(screen: Screen, key: str) -> None:
    screen.page.get_by_label("API key").fill(key)
    screen.page.get_by_role("button", name="Sign in").click()


def until(true: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.3)


def inert(screen: Screen) -> bool:
    """Nothing that people or models wrote has run as a script."""
    return bool(screen.page.evaluate("window.broken === undefined"))
