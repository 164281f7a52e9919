"""`ratchet experiments` against an HTTP server in the gateway's place."""

from pathlib import Path
from typing import Any

import pytest

from ratchet_testing.gateway import ScriptedGateway

pytestmark = pytest.mark.usefixtures("address")

VARIANTS = ("--variant", "control=starter@1", "--variant", "treatment=starter@2*0.5")
REPORT = {
    "variants": [
        {"name": "control", "units": "60", "requests": "90", "values": [{"measure": "MEASURE_QUALITY", "value": 0.5}]},
        {"name": "treatment", "units": "30", "requests": "41", "values": [{"measure": "MEASURE_QUALITY"}]},
    ],
    "comparisons": [{"variant": "treatment", "sentence": "treatment: undecided in quality"}],
    "conclusion": "treatment: undecided in quality. not yet",
}


def test_planning(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"fixed_units": "3142", "fixed_days": 3.1, "sequential_units": "6012", "sequential_days": 6.0})
    asked = ("--model", "starter", "--effect", "0.05", "--deviation", "0.5", "--variants", "3", "--guardrails", "2")
    result = ratchet("experiments", "plan", *asked)
    assert "fixed horizon" in result.stdout
    assert "6012 users at most, 6.0 days" in result.stdout
    body = gateway.received[0].body
    assert body is not None
    assert (body["effect"], body["deviation"], body["weights"], body["guardrails"]) == (0.05, 0.5, [1.0] * 3, 2)
    assert "--fixed --min-units 1048" in result.stdout
    assert "--planned-units 6012" in result.stdout
    assert "units_per_day" not in body


def test_creating_and_starting(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"experiment": {"id": "exp_1"}}, {"experiment": {"id": "exp_1", "state": "STATE_RUNNING"}})
    result = ratchet(
        "experiments",
        "create",
        *VARIANTS,
        "--metric",
        "quality:0.02",
        "--guardrail",
        "latency-p95",
        "--start",
        "--planned-units",
        "6012",
    )
    assert result.stdout == "exp_1\n"
    made, started = gateway.received
    assert started.path == "/api/v1/experiments/exp_1/start"
    assert made.body is not None
    spec = made.body["spec"]
    assert [variant["weight"] for variant in spec["variants"]] == [1.0, 0.5]
    assert spec["primary"] == {"measure": "MEASURE_QUALITY", "margin": 0.02}
    assert [metric["measure"] for metric in spec["guardrails"]] == ["MEASURE_LATENCY_P95"]
    assert spec["planned_units"] == "6012"


def test_named_metrics_and_cost(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"experiment": {"id": "exp_1"}})
    options = ("--metric", "more:accepted_chars:5", "--guardrail", "less:edit_seconds", "--guardrail", "cost:0.001")
    ratchet("experiments", "create", *VARIANTS, *options, "--prompt-price", "0.5", "--completion-price", "2")
    assert gateway.received[0].body is not None
    spec = gateway.received[0].body["spec"]
    named = {"measure": "MEASURE_NAMED"}
    more, less = {"direction": "DIRECTION_MORE_IS_BETTER"}, {"direction": "DIRECTION_LESS_IS_BETTER"}
    assert spec["primary"] == named | more | {"name": "accepted_chars", "margin": 5.0}
    assert spec["guardrails"] == [named | less | {"name": "edit_seconds"}, {"measure": "MEASURE_COST", "margin": 0.001}]
    assert spec["price"] == {"prompt_per_million": 0.5, "completion_per_million": 2.0}


def test_offline_from_a_file(ratchet: Any, gateway: ScriptedGateway, tmp_path: Path) -> None:
    gateway.answers({"experiment": {"id": "exp_1"}})
    file = tmp_path / "prompts.jsonl"
    file.write_text(
        '{"prompt": "say hi", "problem_set": "composed/test", "problem_id": "p1"}\n\n'
        '{"messages": [{"role": "user", "content": "say hi"}]}\n'
    )
    ratchet("experiments", "create", *VARIANTS, "--prompts", str(file), "--max-tokens", "64", "--temperature", "0")
    body = gateway.received[0].body
    assert body is not None
    assert body["spec"]["replay"] == {"sampling": {"max_tokens": 64, "temperature": 0.0}}
    assert "unit" not in body["spec"]
    first, second = body["prompts"]
    assert first == {
        "prompt": {"text": "say hi"},
        "problem": {"problem_set": "composed/test", "problem_id": "p1"},
    }
    assert second["prompt"]["chat"]["messages"][0]["content"] == [{"text": "say hi"}]


def test_offline_from_kept_traffic(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"experiment": {"id": "exp_1"}})
    ratchet("experiments", "create", *VARIANTS, "--latest", "200")
    body = gateway.received[0].body
    assert body is not None
    assert body["spec"]["replay"]["latest"] == 200


@pytest.mark.parametrize(
    "line", ["say hi", "[" * 9999, "3", '{"text": "say hi"}', '{"prompt": 3}', '{"prompt": "x", "problem_id": "p"}']
)
def test_a_wrong_line_is_named(ratchet: Any, tmp_path: Path, line: str) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text(f'{{"prompt": "say hi"}}\n{line}\n')
    result = ratchet("experiments", "create", *VARIANTS, "--prompts", str(file))
    assert result.returncode == 2
    assert "line 2: write {" in result.stderr


def test_a_named_metric_is_shown_by_its_name(ratchet: Any, gateway: ScriptedGateway) -> None:
    value = {"measure": "MEASURE_NAMED", "name": "accepted_chars", "value": 120.0}
    report = {"variants": [{"name": "control", "values": [value]}]}
    primary = {"measure": "MEASURE_NAMED", "name": "accepted_chars"}
    shown = {"id": "exp_1", "state": "STATE_RUNNING", "spec": {"primary": primary}, "report": report}
    gateway.answers({"experiment": shown}, {"experiments": [shown]})
    lines = ratchet("experiments", "show", "exp_1").stdout.splitlines()
    assert lines[1].split() == ["variant", "units", "requests", "accepted_chars"]
    assert "accepted_chars" in ratchet("experiments", "list").stdout


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--variant", "starter@1"), "write name=model@version"),
        ((*VARIANTS, "--metric", "beauty"), "--metric beauty: choose one of quality, feedback"),
        ((*VARIANTS, "--metric", "quality:much"), "'much' is not a number"),
        ((*VARIANTS, "--unit", "planet"), "choose one of user, session, key, request"),
    ],
)
def test_wrong_usage(ratchet: Any, options: tuple[str, ...], sentence: str) -> None:
    result = ratchet("experiments", "create", *options)
    assert result.returncode == 2
    assert sentence in result.stderr


def test_showing_concluding_and_listing(ratchet: Any, gateway: ScriptedGateway) -> None:
    shown = {"id": "exp_1", "state": "STATE_RUNNING", "report": REPORT}
    gateway.answers(
        {"experiment": shown}, {"experiment": shown | {"state": "STATE_CONCLUDED"}}, {"experiments": [shown]}
    )
    lines = ratchet("experiments", "show", "exp_1").stdout.splitlines()
    assert lines[0] == "exp_1 RUNNING"
    assert lines[1].split() == ["variant", "units", "requests", "quality"]
    assert lines[3].split() == ["treatment", "30", "41", "-"]
    assert lines[-1] == "In all: treatment: undecided in quality. not yet"
    assert "CONCLUDED" in ratchet("experiments", "conclude", "exp_1", "--early").stdout
    assert gateway.received[1].body == {"early": True}
    assert "exp_1" in ratchet("experiments", "list").stdout


@pytest.mark.parametrize(("command", "state"), [("start", "RUNNING"), ("pause", "PAUSED"), ("stop", "STOPPED")])
def test_changes(ratchet: Any, gateway: ScriptedGateway, command: str, state: str) -> None:
    gateway.answers({"experiment": {"id": "exp_1", "state": f"STATE_{state}"}})
    assert ratchet("experiments", command, "exp_1").stdout == f"exp_1 {state}\n"
    assert gateway.received[0].path == f"/api/v1/experiments/exp_1/{command}"


def test_experiments_have_names(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"experiment": {"id": "exp_1"}})
    ratchet("experiments", "create", *VARIANTS, "--name", "Shorter prompts")
    assert gateway.received[0].body is not None
    assert gateway.received[0].body["spec"]["display_name"] == "Shorter prompts"
    one = {"id": "exp_1", "spec": {"display_name": "Shorter prompts", "description": "Cost, mostly."}}
    gateway.answers({"experiments": [one]}, {"experiment": one})
    assert "Shorter prompts" in ratchet("experiments", "list", "--name", "short").stdout
    assert gateway.received[1].query["name"] == "short"
    assert ratchet("experiments", "show", "exp_1").stdout.splitlines()[1:] == ["Shorter prompts", "Cost, mostly."]
