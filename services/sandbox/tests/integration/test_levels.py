"""The attack suite where the machine gives less: another user, no namespaces. And where it gives too little."""

import json
import subprocess
from pathlib import Path

import pytest

from ratchet_testing import weaker

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]  # 400 attacks, one after the other

HERE = Path(__file__).parent


def _command() -> list[str]:
    """Skips where that can't be."""
    try:
        return weaker.python_as_nobody("sandbox_service.adapters.lanes.pool")
    except LookupError as error:
        pytest.skip(str(error))


def _audit(*options: str) -> subprocess.CompletedProcess[str]:
    command = [*_command(), str(HERE / "weaker_machine.py"), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=1200, cwd="/")


@pytest.mark.parametrize(
    ("options", "level"), [([], "L2"), (["--deny-namespaces"], "L1")], ids=["user-namespaces", "no-namespaces"]
)
def test_another_user(options: list[str], level: str) -> None:
    done = _audit(*options)
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
    done = _audit("--deny-all")
    assert done.returncode != 0
    assert "below L1" in done.stderr
    assert "L1 lacks landlock" in done.stderr
