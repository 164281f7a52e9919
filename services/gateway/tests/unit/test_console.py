"""/console: who may read it, what browsers are told to refuse, and what its files never do."""

import hashlib
import re
from pathlib import Path

import pytest

from gateway_service.rest.console import FOLDER, POLICY

from ..world import World

OURS = sorted(path for path in FOLDER.rglob("*") if path.is_file() and "vendor" not in path.parts)
VENDORED = {
    # npm's uplot 1.6.32, as it is published
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}


@pytest.mark.parametrize("path", [path.relative_to(FOLDER).as_posix() for path in OURS])
async def test_its_files_are_open_and_guarded(world: World, path: str) -> None:
    async with world.http() as http:
        del http.headers["Authorization"]
        found = await http.get(f"/console/{path}")
    assert found.status_code == 200
    assert found.headers["content-security-policy"] == POLICY
    assert found.headers["x-content-type-options"] == "nosniff"
    if path.endswith(".js"):
        assert "javascript" in found.headers["content-type"]


async def test_the_address_without_a_file_is_the_page(world: World) -> None:
    async with world.http() as http:
        assert (await http.get("/console/")).text == (FOLDER / "index.html").read_text()
        for path in ("/console", "/"):
            moved = await http.get(path)
            assert moved.status_code == 307
            assert moved.headers["location"] == "console/"


@pytest.mark.parametrize("path", ["nothing.js", "../main.py", "..%2fmain.py", "%2e%2e/settings.py", "views"])
async def test_nothing_else_is_served(world: World, path: str) -> None:
    async with world.http() as http:
        assert (await http.get(f"/console/{path}")).status_code in (404, 405)


def test_the_policy_lets_nothing_in_from_elsewhere() -> None:
    rules = dict(rule.split(" ", 1) for rule in POLICY.split("; "))
    assert rules["default-src"] == rules["form-action"] == rules["frame-ancestors"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert "unsafe" not in POLICY


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_no_text_becomes_html(path: Path) -> None:
    """The browser refuses it, too; here it is found before."""
    text = path.read_text()
    wrong = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function|setTimeout\(['\"]"
    assert not re.search(wrong, text)
    assert not re.search(r"\sstyle=|\son\w+=\"", text)
    assert not re.search(r"https?://(?!www\.w3\.org/)", text), "it works without a network"


@pytest.mark.parametrize("path", [path for path in OURS if path.suffix == ".js"], ids=lambda path: path.stem)
def test_imports_are_there(path: Path) -> None:
    for module in re.findall(r'from "([^"]+)"', path.read_text()):
        assert (path.parent / module).is_file()


def test_what_is_vendored_is_as_it_was_published() -> None:
    (folder,) = (FOLDER / "vendor").iterdir()
    assert "MIT" in (folder / "LICENSE").read_text()
    assert VENDORED.keys() == {path.name for path in folder.iterdir()} - {"LICENSE"}
    for name, digest in VENDORED.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
