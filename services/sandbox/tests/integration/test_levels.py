"""The hostile programs where the machine gives less: another user, no namespaces. And where it gives too little."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ratchet_kit
import sandbox_service

pytestmark = pytest.mark.integration

HERE = Path(__file__).parent
HOSTILE = HERE.parent / "hostile"
NOBODY = 65534
# Where nobody may read what runs this test, the machine's own python can stand in.
PYTHONS = [os.path.realpath(sys.executable), "/usr/bin/python3"]


def _command(nobody: bool) -> list[str]:
    """How to start python as this user or as nobody, with what this python would import. Skips where that can't be."""
    sources = [str(Path(module.__file__ or "").parent.parent) for module in (sandbox_service, ratchet_kit)]
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
                [*become, python, "-c", "import sandbox_service.adapters.zygotes"], capture_output=True
            ).returncode
            == 0
        ):
            return [*become, python]
    pytest.skip("no python here that another user can run")


def _grade(*options: str, nobody: bool) -> subprocess.CompletedProcess[str]:
    command = [*_command(nobody), str(HERE / "weaker_machine.py"), str(HOSTILE), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd="/")


def _expected(name: str) -> set[str]:
    lines = (HOSTILE / f"{name}.py").read_text().splitlines()
    line = next(line for line in lines if line.startswith("Expect:"))
    return {word.strip() for word in line.removeprefix("Expect:").split(",")}


@pytest.mark.parametrize("options", [[], ["--deny-namespaces"]], ids=["user-namespaces", "no-namespaces"])
def test_another_user(options: list[str]) -> None:
    done = _grade(*options, nobody=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["uid"] != 0
    assert ("user-ns" in told["layers"]) == (not options)
    assert {"seccomp", "landlock", "no-new-privs"} <= set(told["layers"])
    assert told["verdicts"].pop("honest") == "PASSED"
    wrong = {name: verdict for name, verdict in told["verdicts"].items() if verdict not in _expected(name)}
    assert wrong == {}
    assert told["left"] == []


def test_too_little_is_refused_in_words() -> None:
    """Neither namespaces nor Landlock: a program could read the service's files."""
    done = _grade("--deny-all", nobody=True)
    assert done.returncode != 0
    assert "below L1" in done.stderr
    assert "L1 lacks landlock" in done.stderr
