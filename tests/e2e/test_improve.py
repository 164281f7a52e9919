"""`ratchet improve` from a file of fifteen lines to a released version, its gateway killed on the way; a schedule."""

import os
import signal
import time
from pathlib import Path

import pytest
from google.protobuf.json_format import MessageToDict

from ratchet.gateway.v1 import workflow_pb2 as pb
from ratchet_client import Client, Unreachable

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
STUDY = """\
train:
  base: starter
  algorithm: grpo
  problems: composed/train
  steps: 1
  hyperparameters: {batch_size: 8, group_size: 4, max_prompt_tokens: 64, max_response_tokens: 72}
evaluate: {problems: {name: composed/test, limit: 20}, temperature: 0, max_tokens: 72}
"""


def kill_gateway_at(client: Client, platform: Platform, id: str, line: str) -> None:
    """Kills the gateway with -9 once the workflow has a line with this in it."""
    try:
        for change in client.workflows.watch(id):
            assert not change.workflow.HasField("end_time"), change.workflow.sentence
            if any(line in new.text for new in change.lines):
                state = platform.home.read_state()
                assert state is not None
                (pid,) = (service.pid for service in state.services if service.name == "gateway")
                assert pid is not None
                os.kill(pid, signal.SIGKILL)
    except Unreachable:
        return
    raise AssertionError(f"it ended before {line!r}")


def test_a_turn_outlives_its_command_and_its_gateway(platform: Platform, client: Client, tmp_path: Path) -> None:
    file = tmp_path / "improve.yaml"
    file.write_text(FILE)
    before = client.models.get("starter").aliases["champion"]
    runs, evaluations = len(list(client.runs.list())), len(list(client.evaluations.list("starter")))

    begun = platform.ratchet("improve", "-f", str(file), "--detach")
    assert begun.returncode == 0, begun.stdout + begun.stderr
    id = begun.stdout.strip()
    kill_gateway_at(client, platform, id, "step 1 of 3")
    result = platform.ratchet("workflows", "watch", id)
    assert result.returncode == 0, result.stdout + result.stderr
    turn = client.workflows.get(id)
    record = MessageToDict(turn.record)
    candidate = int(record["candidate"])
    assert (turn.state, turn.attempt, record["state"]) == (pb.Workflow.STATE_SUCCEEDED, 2, "released")
    assert f"starter@{candidate} is released: it is the champion, as starter@{before} was." in result.stdout
    assert client.models.get("starter").aliases["champion"] == candidate
    assert len(list(client.runs.list())) == runs + 1
    assert len(list(client.evaluations.list("starter"))) == evaluations + 2
    changed = {(entry.method, entry.resource) for entry in client.keys.audit() if entry.request_id == id}
    assert ("ReleaseService.CreateRelease", record["release"]) in changed
    page = tmp_path / "turn.html"
    assert platform.ratchet("workflows", "report", id, "--out", str(page)).returncode == 0
    assert record["gate"] in page.read_text()


def test_a_schedule_begins_a_study(platform: Platform, client: Client, tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(STUDY)
    made = platform.ratchet("study", "-f", str(file), "--every", "* * * * *")
    assert made.returncode == 0, made.stdout + made.stderr
    deadline = time.monotonic() + 300
    while not (id := client.schedules.get(made.stdout.strip()).workflow_id):
        assert time.monotonic() < deadline, client.schedules.get(made.stdout.strip())
        time.sleep(1)
    client.schedules.delete(made.stdout.strip())
    result = platform.ratchet("workflows", "watch", id)
    assert result.returncode == 0, result.stdout + result.stderr
    study = client.workflows.get(id)
    assert (study.schedule_id, study.state) == (made.stdout.strip(), pb.Workflow.STATE_SUCCEEDED)
    assert len(MessageToDict(study.record)["results"]["results"]) == 1


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


def test_feedback_is_counted(client: Client) -> None:
    before = client.count_feedback("starter")
    answer = client.chat("starter", "Return the sum of the numbers in xs.", max_tokens=16)
    client.feedback(answer.id, score=0.0)
    client.feedback(answer.id, score=1.0)
    assert client.count_feedback("starter") == before + 1
