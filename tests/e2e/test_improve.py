"""`ratchet improve` from a file of fifteen lines to a released version, killed on its way; and a gate that refuses."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ratchet_client import Client

from .conftest import Platform

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1500)]

# A rate that changes next to nothing, and a gate that lets pass what is not worse: the way is tested, not the gain.
FILE = """\
model: starter
train:
  algorithm: grpo
  problems: composed/train
  validation_problems: {name: composed/validation, limit: 8}
  steps: 3
  hyperparameters:
    {batch_size: 8, group_size: 4, learning_rate: 1e-7, max_prompt_tokens: 64, max_response_tokens: 72}
evaluate: {suite: [{problems: {name: composed/test, limit: 150}}], temperature: 0, max_tokens: 72}
gate: {min_difference: -0.1}
release: {stages: [{percent: 100}], unproven: proceed, watch: 0s}
"""


def killed(platform: Platform, file: Path, line: str) -> None:
    """Starts the command, and kills it once its log has a line with this in it."""
    log = file.with_suffix(".turns") / "log.txt"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RATCHET_")}
    command = subprocess.Popen(
        [sys.executable, "-m", "ratchet_cli.main", "improve", "-f", str(file)],
        env=environment | {"RATCHET_HOME": str(platform.home.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = time.monotonic() + 400
    while not (log.is_file() and line in log.read_text()):
        assert command.poll() is None, command.communicate()[0]
        assert time.monotonic() < deadline, log.read_text() if log.is_file() else "nothing was begun"
        time.sleep(0.2)
    command.send_signal(signal.SIGKILL)
    command.communicate()


def record(file: Path, number: int) -> Any:
    return json.loads((file.with_suffix(".turns") / f"turn-{number}.json").read_text())


def test_killed_in_each_stage_it_ends_in_a_released_version(platform: Platform, client: Client, tmp_path: Path) -> None:
    file = tmp_path / "improve.yaml"
    file.write_text(FILE)
    before = client.models.get("starter").aliases["champion"]
    runs, evaluations = len(list(client.runs.list())), len(list(client.evaluations.list("starter")))

    killed(platform, file, f"== measure starter@{before}")
    killed(platform, file, "step 1 of 3")
    assert record(file, 1)["run"]
    result = platform.ratchet("improve", "-f", str(file))
    assert result.returncode == 0, result.stdout + result.stderr
    turn = record(file, 1)
    candidate = turn["candidate"]
    assert (turn["state"], turn["base"]) == ("released", before)
    assert f"starter@{candidate} is released: it is the champion, as starter@{before} was." in result.stdout
    assert client.models.get("starter").aliases["champion"] == candidate
    assert len(list(client.runs.list())) == runs + 1
    assert len(list(client.evaluations.list("starter"))) == evaluations + 2
    page = (file.with_suffix(".turns") / "turn-1.html").read_text()
    assert turn["sentence"].replace("'", "&#39;") in page
    assert turn["gate"] in page

    file.write_text(FILE.replace("min_difference: -0.1", "min_difference: 0.5").replace("steps: 3", "steps: 1"))
    result = platform.ratchet("improve", "-f", str(file))
    assert result.returncode == 1, result.stdout + result.stderr
    assert record(file, 2)["state"] == "refused"
    assert "is not released. Refused: " in result.stdout
    assert " too low." in result.stdout
    assert client.models.get("starter").aliases["champion"] == candidate


def test_every_fault_of_a_file_is_named_before_anything_begins(
    platform: Platform, client: Client, tmp_path: Path
) -> None:
    file = tmp_path / "improve.yaml"
    faulty = FILE.replace("group_size: 4", "group_size: 1").replace("composed/test", "nowhere").replace("100}", "101}")
    file.write_text(faulty.replace("-0.1", "-0.5"))
    runs = len(list(client.runs.list()))
    result = platform.ratchet("improve", "-f", str(file))
    assert result.returncode == 2, result.stdout + result.stderr
    for said in (
        ":8: train.hyperparameters.group_size must",
        ":9: evaluate.",
        ":10: gate.min_difference must",
        ":11: release.stages[0].percent must",
    ):
        assert said in result.stderr, result.stderr
    assert len(list(client.runs.list())) == runs
    assert not list(tmp_path.glob("improve.turns/turn-*"))


def test_feedback_is_counted(client: Client) -> None:
    before = client.count_feedback("starter")
    answer = client.chat("starter", "Return the sum of the numbers in xs.", max_tokens=16)
    client.feedback(answer.id, score=0.0)
    client.feedback(answer.id, score=1.0)
    assert client.count_feedback("starter") == before + 1
