"""/docs: it works without a network, and its page allows nothing from elsewhere."""

import re

import pytest

from gateway_service.rest.docs import HEADERS

from ..world import World


@pytest.fixture
async def http(world: World):
    async with world.http() as client:
        del client.headers["Authorization"]
        yield client


async def test_all_that_the_page_loads_is_here(http) -> None:
    page = await http.get("/docs")
    assert page.status_code == 200
    assert "//" not in page.text
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert [path.rpartition(".")[2] for path in loaded] == ["svg", "css", "js", "js"]
    for path in loaded:
        found = await http.get(f"/{path}")
        assert found.status_code == 200, path
    assert not re.search(r"<script>|<style|\sstyle=|\son\w+=", page.text), "the rules let none of these run"


async def test_the_page_is_held_to_rules(http) -> None:
    headers = (await http.get("/docs")).headers
    assert headers["x-content-type-options"] == "nosniff"
    rules = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
    assert rules["default-src"] == rules["form-action"] == rules["frame-ancestors"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert "unsafe" not in HEADERS["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["../consts.py", "%2e%2e/core.py", "nothing.js"])
async def test_nothing_else_of_the_package_is_served(http, path: str) -> None:
    assert (await http.get(f"/docs/files/{path}")).status_code == 404
