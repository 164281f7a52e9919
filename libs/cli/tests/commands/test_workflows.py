"""`ratchet improve`, `study` and `workflows` against an HTTP server in the gateway's place; the turns and studies
themselves are tested in libs/workflows."""

import json
from pathlib import Path
from typing import Any

import pytest

from ratchet_testing.gateway import ScriptedGateway

PLAN = """\
model: starter
train:
  steps: 4
  reward: loud.py=1
  chat_template: mine.jinja
evaluate: {problems: composed/test}
gate: {min_difference: 0.01}
release: {stages: [{percent: 100}]}
"""
FLOW = {"id": "flow_1", "plan": {"kind": "WORKFLOW_KIND_TURN", "name": "improve.yaml"}, "state": "STATE_QUEUED"}
ENDED = FLOW | {"state": "STATE_REFUSED", "sentence": "The gain is too small."}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plan that names files beside it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loud.py").write_text("def score(task, answer):\n    return 1.0\n")
    (tmp_path / "mine.jinja").write_text("{{ messages }}\n")
    (tmp_path / "improve.yaml").write_text(PLAN)
    return tmp_path / "improve.yaml"


@pytest.fixture
def there(gateway: ScriptedGateway, ratchet: Any, monkeypatch: pytest.MonkeyPatch) -> ScriptedGateway:
    monkeypatch.setenv("RATCHET_URL", gateway.url)
    return gateway


def test_what_a_command_line_may_not_say(ratchet: Any, file: Path) -> None:
    plan = str(file)
    assert "give one of them" in ratchet("improve", "-f", plan, "--every", "7d", "--when-feedback", "5").stderr
    assert "as 30m, 6h, 1d" in ratchet("improve", "-f", plan, "--every", "weekly").stderr
    assert ratchet("improve", "-f", "nowhere.yaml").returncode == 2
    assert ratchet("improve", "-f", plan).returncode == 4, "no platform answers"


def test_a_plan_is_sent_with_the_files_that_it_names(ratchet: Any, there: ScriptedGateway, file: Path) -> None:
    there.answers({"workflow": FLOW})
    assert ratchet("improve", "-f", str(file), "--detach").stdout == "flow_1\n"
    body = there.received[0].body
    assert body is not None
    sent = body["plan"]
    assert (sent["kind"], sent["name"]) == ("WORKFLOW_KIND_TURN", "improve.yaml")
    assert "{{ messages }}" in sent["text"]
    assert "return 1.0" in sent["text"]
    assert len(sent["text"].splitlines()) == len(PLAN.splitlines()), "faults are said by their lines"


def test_faults_of_a_plan_are_said_as_they_are(ratchet: Any, there: ScriptedGateway, file: Path) -> None:
    faults = ["improve.yaml:3: train.steps must be 5 or more.", "improve.yaml:7: gate.min_difference is bad."]
    violations = [{"field": "plan.text", "description": fault} for fault in faults]
    error = {"code": "INVALID_ARGUMENT", "message": "\n".join(faults), "violations": violations}
    there.answers({"error": error}, status=400)
    result = ratchet("improve", "-f", str(file))
    assert (result.returncode, result.stderr) == (2, f"ratchet: {faults[0]}\n{faults[1]}\n")


@pytest.mark.parametrize(
    ("options", "trigger"),
    [
        (("--every", "7d"), ("every", "604800s")),
        (("--every", "0 3 * * 1"), ("cron", "0 3 * * 1")),
        (("--when-feedback", "500"), ("when_feedback", 500)),
    ],
)
def test_a_schedule_is_created(
    ratchet: Any, there: ScriptedGateway, file: Path, options: tuple[str, str], trigger: tuple[str, Any]
) -> None:
    there.answers({"schedule": {"id": "sched_1"}})
    assert ratchet("improve", "-f", str(file), *options).stdout == "sched_1\n"
    (received,) = there.received
    assert received.body is not None
    assert (received.path, received.body[trigger[0]]) == ("/api/v1/schedules", trigger[1])


def test_listing_showing_and_cancelling(ratchet: Any, there: ScriptedGateway) -> None:
    cells = [{"name": "rloo, seed 0", "run": "run_1", "evaluation": "eval_1"}]
    there.answers(
        {"workflows": [ENDED]}, {"workflow": ENDED | {"record": {"gate": "gate_1", "cells": cells}}}, {}, {}, {}
    )
    assert ratchet("workflows", "list").stdout.splitlines()[1].split()[:4] == [
        *("flow_1", "turn", "improve.yaml", "REFUSED")
    ]
    shown = ratchet("workflows", "show", "flow_1").stdout
    for said in ("gate_1", "run_1 eval_1", "The gain is too small."):
        assert said in shown
    assert ratchet("workflows", "cancel", "flow_1").stdout == "flow_1 is cancelled.\n"
    assert ratchet("workflows", "resume", "flow_1").stdout == "flow_1 goes on.\n"
    assert ratchet("workflows", "schedules", "delete", "sched_1").stdout == "sched_1 is deleted.\n"
    assert [one.path for one in there.received[2:]] == [
        "/api/v1/workflows/flow_1/cancel",
        "/api/v1/workflows/flow_1/resume",
        "/api/v1/schedules/sched_1",
    ]


def test_schedules_are_listed(ratchet: Any, there: ScriptedGateway) -> None:
    plan = {"kind": "WORKFLOW_KIND_STUDY", "name": "study.yaml"}
    there.answers({"schedules": [{"id": "sched_1", "plan": plan, "cron": "0 3 * * 1", "workflow_id": "flow_1"}]})
    row = json.loads(ratchet("workflows", "schedules", "list", "--json").stdout)[0]
    assert (row["id"], row["cron"]) == ("sched_1", "0 3 * * 1")
