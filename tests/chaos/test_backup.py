"""A home that is lost amid a run comes back from its backup, and the run ends as if nothing had been."""

import shutil
from pathlib import Path

import pytest

from ratchet_client import Client
from tests.e2e.conftest import Platform, running

from .killing import wait_until
from .test_kill import check_end, start

pytestmark = [pytest.mark.e2e, pytest.mark.chaos, pytest.mark.timeout(1800)]

STEPS = 6


def test_a_lost_home_comes_back(tmp_path: Path) -> None:
    with running() as platform:
        with platform.client() as client:
            undisturbed = start(client, STEPS)
            check_end(client, undisturbed.id, STEPS)
            run = start(client, STEPS)
            wait_until(lambda: client.runs.get(run.id).step >= 3, 400)
        file = tmp_path / "saved.tar"
        done(platform, "backup", str(file))
        done(platform, "down")
        shutil.rmtree(platform.home.path)
        done(platform, "restore", str(file))
        done(platform, "up", "--port-base", "0")
        with platform.client() as client:
            check_end(client, run.id, STEPS)
            assert policies(client, run.id) == policies(client, undisturbed.id)


def policies(client: Client, run_id: str) -> list[str]:
    return [step.policy_id for step in sorted(client.runs.steps(run_id), key=lambda step: step.number)]


def done(platform: Platform, *command: str) -> None:
    result = platform.ratchet(*command)
    assert result.returncode == 0, result.stderr
