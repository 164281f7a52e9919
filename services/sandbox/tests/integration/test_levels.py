"""The attack suite where the machine gives less: another user, no namespaces. And where it gives too little."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ratchet_kit
import ratchet_problems
import sandbox_service

pytestmark = pytest.mark.integration

HERE = Path(__file__).parent
NOBODY = 65534
# Where nobody may read what runs this test, the machine's own python can stand in.
PYTHONS = [os.path.realpath(sys.executable), "/usr/bin/python3"]


def _command(nobody: bool) -> list[str]:
    """How to start python as this user or as nobody, with what this python would import. Skips where that can't be."""
    sources = [
        str(Path(module.__file__ or "").parent.parent) for module in (sandbox_service, ratchet_kit, ratchet_problems)
    ]
    path = ":".join([*sources, *(entry for entry in sys.path if entry.endswith("site-packages"))])
    environment = ["env", f"PYTHONPATH={path}", "PYTHONDONTWRITEBYTECODE=1", "HOME=/tmp"]
    if not nobody or os.geteuid() != 0:
        return [*environment, PYTHONS[0]]
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("there is no setpriv to become another user with")
    become = [setpriv, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *environment]
    for python in PYTHONS:
        if (
            subprocess.run(
                [*become, python, "-c", "import sandbox_service.adapters.lanes.pool"], capture_output=True
            ).returncode
            == 0
        ):
            return [*become, python]
    pytest.skip("no python here that another user can run")


def _audit(*options: str, nobody: bool) -> subprocess.CompletedProcess[str]:
    command = [*_command(nobody), str(HERE / "weaker_machine.py"), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd="/")


@pytest.mark.parametrize(
    ("options", "level"), [([], "L2"), (["--deny-namespaces"], "L1")], ids=["user-namespaces", "no-namespaces"]
)
def test_another_user(options: list[str], level: str) -> None:
    done = _audit(*options, nobody=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["uid"] != 0
    assert told["level"] == level
    assert told["missing"][0].startswith(f"L{int(level[1]) + 1} lacks ")
    assert told["got_through"] == {}
    assert told["tried"] > 50
    assert told["left"] == []


def test_too_little_is_refused_in_words() -> None:
    """Neither namespaces nor Landlock: a program could read the service's files."""
    done = _audit("--deny-all", nobody=True)
    assert done.returncode != 0
    assert "below L1" in done.stderr
    assert "L1 lacks landlock" in done.stderr
