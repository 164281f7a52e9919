"""`ratchet train` and `ratchet runs` against an HTTP server in the gateway's place."""

import re
from typing import Any

import pytest

from ratchet.common.v1 import environment_pb2
from ratchet_cli.commands.options import environment
from ratchet_cli.terminal.errors import CommandError
from ratchet_testing.gateway import ScriptedGateway


def run(state: str, **fields: Any) -> dict[str, Any]:
    return {"run": {"id": "run_1", "state": f"STATE_{state}", "spec": {"steps": 2}, **fields}}


def test_an_environment_may_have_its_number_of_answers() -> None:
    assert environment("") is None
    assert environment("edits") == environment_pb2.EnvironmentSpec(name="edits")
    assert environment("edits=5") == environment_pb2.EnvironmentSpec(name="edits", max_turns=5)
    with pytest.raises(CommandError, match="'many' is not a number of answers"):
        environment("edits=many")


@pytest.mark.usefixtures("address")
def test_training_is_followed_to_the_version(ratchet: Any, gateway: ScriptedGateway) -> None:
    step = {"number": 2, "metrics": {"reward_mean": 0.5}}
    gateway.answers(run("QUEUED"))
    gateway.streams(
        ("message", run("QUEUED")),
        ("message", run("STARTING", phase="PHASE_LOADING_MODEL", attempt=1)),
        ("message", run("RUNNING", step=2, attempt=1) | {"steps": [step]}),
        ("message", run("SUCCEEDED", step=2, attempt=1, version={"model": "starter", "number": 2})),
    )
    limited = ("--set", "validation_problems.limit=8")
    result = ratchet("train", "--model", "starter", "--steps", "2", "--set", "resources.device=cpu", *limited)
    assert result.returncode == 0, result.stderr
    assert result.stderr.splitlines() == [
        "run_1: waiting for a worker of the trainer",
        "run_1: loading the model on the training ranks",
        "run_1: step 2 of 2, reward 0.500",
        "run_1: training",
    ]
    assert result.stdout.startswith("Registered as starter@2.")
    body = gateway.received[0].body
    assert body is not None
    spec = body["spec"]
    assert (spec["base"], spec["output_model"], spec["resources"]["device"]) == (
        {"model": "starter"},
        "starter",
        "DEVICE_CPU",
    )
    assert spec["validation_problems"]["limit"] == 8
    assert "limit" not in spec["problems"]
    assert "validate_every" not in spec


@pytest.mark.usefixtures("address")
def test_a_plugin_stands_for_the_algorithm(ratchet: Any, gateway: ScriptedGateway) -> None:
    named = ("train", "--model", "starter", "--detach", "--set", "plugins=algorithm:mine")
    for options, algorithm in (((), None), (("--algorithm", "rloo"), "ALGORITHM_RLOO")):
        gateway.answers(run("QUEUED"))
        assert ratchet(*named, *options).returncode == 0
        body = gateway.received[-1].body
        assert body is not None
        assert body["spec"].get("algorithm") == algorithm
        assert body["spec"]["plugins"] == [{"kind": "PLUGIN_KIND_ALGORITHM", "name": "mine"}]


@pytest.mark.usefixtures("address")
def test_a_failure_is_said_once(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers(run("QUEUED"))
    failed = run("FAILED", failure={"code": "INTERNAL", "message": "the job died 5 times"})
    gateway.streams(("message", failed))
    result = ratchet("train", "--model", "starter")
    assert (result.returncode, result.stderr) == (1, "ratchet: Run run_1 ended FAILED: the job died 5 times\n")


@pytest.mark.usefixtures("address")
def test_runs_are_listed_and_deleted(ratchet: Any, gateway: ScriptedGateway) -> None:
    sentence = "the job died 5 times, the last at step 7: it reported nothing for too long"
    runs = [run("FAILED", failure={"message": sentence})["run"], run("RUNNING", step=1)["run"]]
    gateway.answers({"runs": runs}, {})
    lines = ratchet("runs", "list").stdout.splitlines()
    assert lines[1].endswith(f"FAILED 0/2: {sentence}")
    assert lines[2].endswith("RUNNING 1/2")
    assert ratchet("runs", "delete", "run_1").stdout == "run_1 is deleted.\n"


@pytest.mark.usefixtures("address")
def test_runs_are_asked_for_by_state_model_name_and_time(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"runs": []})
    asked = ("--state", "failed", "--model", "starter", "--name", "night", "--since", "2026-11-27T00:00:00+00:00")
    assert ratchet("runs", "list", *asked).returncode == 0
    query = dict(gateway.received[-1].query)
    del query["page_size"]
    wanted = {"state": "STATE_FAILED", "model": "starter", "name": "night", "after_time": "2026-11-27T00:00:00Z"}
    assert query == wanted
    for wrong in (("--state", "lost"), ("--since", "tomorrow"), ("--since", "0h")):
        result = ratchet("runs", "list", *wrong)
        assert (result.returncode, len(result.stderr.splitlines())) == (2, 1)
        assert wrong[1] in result.stderr


@pytest.mark.usefixtures("address")
def test_a_run_is_shown_by_name_with_its_sets_numbers_and_times(ratchet: Any, gateway: ScriptedGateway) -> None:
    spec = {
        "display_name": "night 1",
        "steps": 2,
        "problems": {"name": "mine@1/train", "limit": 12},
        "validation_problems": {"name": "mine@1/validation"},
        "hyperparameters": {"learning_rate": 1e-6, "group_size": 8, "learning_rate_schedule": 1},
    }
    usage = {"cpu_time": "90s", "wall_time": "100s", "wait_time": "31s", "cost": 4.1, "currency": "EUR"}
    shown = run("SUCCEEDED", spec=spec, actor="key_1", create_time="2026-01-02T03:04:05Z", usage=usage)
    gateway.answers(shown, {"checkpoints": []}, {"steps": []})
    lines = ratchet("runs", "show", "run_1").stdout.splitlines()
    fields = {name: value.strip() for name, _, value in (line.partition("  ") for line in lines)}
    assert fields["name"] == "night 1"
    assert (fields["used"], fields["cost"]) == ("1 min 30 s of CPU", "4.10 EUR")
    assert fields["waited"] == "31% of 1 min 40 s waiting for samples"
    assert fields["problems"] == "mine@1/train, the first 12"
    assert fields["validation"] == "mine@1/validation"
    assert (fields["learning_rate"], fields["group_size"]) == ("1e-06", "8")
    assert fields["learning_rate_schedule"] == "LEARNING_RATE_SCHEDULE_CONSTANT"
    assert re.fullmatch(r"2026-01-0\d \d\d:\d\d:05 \S+ \(\d+d ago\) by key_1", fields["created"])


@pytest.mark.usefixtures("address")
def test_a_run_is_shown_with_its_curves(ratchet: Any, gateway: ScriptedGateway) -> None:
    """However long it is, a line has 40 blocks; a metric that no step has has no line."""
    steps = [{"number": number, "metrics": {"reward_mean": number / 100}} for number in range(1, 101)]
    best = {"step": 100, "uri": "s3://b/100"}
    shown = run("SUCCEEDED", best_checkpoint=best)
    gateway.answers(shown, {"checkpoints": [{"step": 50, "uri": "s3://b/50"}, best]}, {"steps": steps})
    lines = ratchet("runs", "show", "run_1").stdout.splitlines()
    assert [line.endswith(", the best") for line in lines if line.startswith("checkpoint")] == [False, True]
    *_, head, reward = lines
    assert head.split() == ["first", "last"]
    name, first, last, blocks = reward.split()
    assert (name, first, last) == ("reward", "0.01", "1")
    assert (len(blocks), blocks[0], blocks[-1]) == (34, "▁", "█")


@pytest.mark.usefixtures("address")
def test_a_budget_is_asked_for_and_without_prices_none_has_a_cost(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers(run("QUEUED"), run("SUCCEEDED"), {"checkpoints": []}, {"steps": []})
    assert ratchet("train", "--model", "starter", "--budget", "50", "--detach").returncode == 0
    body = gateway.received[0].body
    assert body is not None
    assert body["spec"]["budget"] == 50
    assert "the operator has set no prices (RATCHET_PRICES)" in ratchet("runs", "show", "run_1").stdout


@pytest.mark.usefixtures("address")
def test_a_queued_run_says_what_it_waits_for(ratchet: Any, gateway: ScriptedGateway) -> None:
    waiting = run("QUEUED", waits_for="1 accelerator: 0 of 2 are free (run_0 is under way)")["run"]
    waiting["spec"] = {**waiting.get("spec", {}), "priority": "PRIORITY_HIGH"}
    leaving = run("RUNNING", step=1, preempted_by="run_9")["run"]
    gateway.answers({"runs": [waiting, leaving]}, {"run": waiting}, {"checkpoints": []}, {"steps": []})
    lines = ratchet("runs", "list").stdout.splitlines()
    assert "high: waiting for 1 accelerator: 0 of 2 are free (run_0 is under way)" in lines[1]
    assert "making room for run_9 after this step" in lines[2]
    shown = ratchet("runs", "show", "run_1").stdout
    assert "now             waiting for 1 accelerator: 0 of 2 are free (run_0 is under way)" in shown
    assert "priority        high" in shown


@pytest.mark.usefixtures("address")
def test_one_run_with_its_checkpoints(ratchet: Any, gateway: ScriptedGateway) -> None:
    interval = {"value": 0.5, "low": 0.4, "high": 0.6}
    checkpoints = [{"step": 2, "uri": "/runs/run_1/step-2", "validation_score": 0.5, "validation": interval}]
    gateway.answers(run("RUNNING", phase="PHASE_SAVING", step=2), {"checkpoints": checkpoints}, {"steps": []})
    lines = ratchet("runs", "show", "run_1").stdout.splitlines()
    assert "now             writing a checkpoint" in lines
    assert "checkpoint 2    /runs/run_1/step-2  0.500 (0.400 to 0.600)" in lines


@pytest.mark.usefixtures("address")
def test_a_run_that_is_evaluated_shows_its_suite_and_the_evaluations(ratchet: Any, gateway: ScriptedGateway) -> None:
    suite = [{"problems": {"name": "mine@1/test"}, "weight": 0.7}, {"problems": {"name": "humaneval+"}, "weight": 0.3}]
    spec = {"steps": 2, "validate": {"suite": suite, "samples": 4}}
    waits_for = "step 2: eval_2, 3 of 8 samples"
    shown = run("RUNNING", spec=spec, phase="PHASE_VALIDATING", step=2, waits_for=waits_for)
    interval = {"value": 0.5, "low": 0.4, "high": 0.6}
    checkpoints = [
        {"step": 1, "uri": "/1", "validation_score": 0.5, "validation": interval, "evaluation_id": "eval_1"},
        {"step": 2, "uri": "/2", "evaluation_id": "eval_2"},
        {"step": 3, "unscored": "a newer checkpoint took its turn"},
    ]
    gateway.answers(shown, {"checkpoints": checkpoints}, {"steps": []})
    lines = ratchet("runs", "show", "run_1").stdout.splitlines()
    assert "now             validating step 2: eval_2, 3 of 8 samples" in lines
    assert "validation      mine@1/test=0.7, humaneval+=0.3, 4 samples a problem" in lines
    assert "checkpoint 1    /1  0.500 (0.400 to 0.600)  eval_1" in lines
    assert "checkpoint 2    /2  eval_2" in lines
    assert "checkpoint 3    a newer checkpoint took its turn" in lines
    gateway.answers(run("QUEUED"))
    wanted = "validate={suite: [mine/test=0.7, humaneval+=0.3], samples: 4}"
    assert ratchet("train", "--model", "starter", "--set", wanted, "--detach").returncode == 0
    body = gateway.received[-1].body
    assert body is not None
    sent = body["spec"]["validate"]
    assert [(one["problems"]["name"], one["weight"]) for one in sent["suite"]] == [
        ("mine/test", 0.7),
        ("humaneval+", 0.3),
    ]
    assert sent["samples"] == 4


@pytest.mark.usefixtures("address")
@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "--steps", "99999999999"),
        ("train", "--nodes", "99999999999"),
        ("evaluate", "--samples", "3000000000"),
    ],
)
def test_a_number_that_no_field_holds_is_wrong_usage(ratchet: Any, arguments: tuple[str, ...]) -> None:
    result = ratchet(*arguments, "--model", "starter")
    assert (result.returncode, len(result.stderr.splitlines())) == (2, 1)
    assert arguments[-1] in result.stderr


@pytest.mark.usefixtures("address")
def test_pairs_take_the_place_of_problems(ratchet: Any, gateway: ScriptedGateway) -> None:
    def sent(*options: str) -> dict[str, Any]:
        gateway.answers(run("QUEUED"))
        result = ratchet("train", "--model", "starter", "--algorithm", "dpo", "--detach", *options)
        assert result.returncode == 0, result.stderr
        body = gateway.received[-1].body
        assert body is not None
        spec: dict[str, Any] = body["spec"]
        return spec

    spec = sent("--set", "pairs=pairs.jsonl", "--set", "dpo_beta=0.3")
    assert (spec["algorithm"], spec["pairs"], spec["hyperparameters"]) == (
        "ALGORITHM_DPO",
        {"name": "pairs.jsonl"},
        {"dpo_beta": 0.3},
    )
    assert "problems" not in spec
    # Both: the service says that one is too many.
    assert sent("--set", "pairs=pairs.jsonl", "--problems", "basics")["problems"] == {"name": "basics"}


@pytest.mark.usefixtures("address")
def test_a_new_run_goes_on_from_a_step_of_another(ratchet: Any, gateway: ScriptedGateway) -> None:
    made = {"steps": 40, "base": {"model": "coder"}, "profile_steps": [30], "hyperparameters": {"learning_rate": 1e-5}}
    child = {"run": {"id": "run_2", "state": "STATE_QUEUED", "spec": {"steps": 30}}}
    gateway.answers({"run": {"id": "run_1", "state": "STATE_FAILED", "spec": made}}, child)
    result = ratchet("runs", "resume", "run_1", "--from", "10", "--set", "learning_rate=5e-6")
    assert (result.returncode, result.stdout) == (0, "run_2 QUEUED\n"), result.stderr
    body = gateway.received[-1].body
    assert body is not None
    spec = body["spec"]
    assert (spec["parent"], spec["steps"]) == ({"run_id": "run_1", "step": 10}, 30)
    assert spec["hyperparameters"]["learning_rate"] == 5e-6
    assert not {"base", "profile_steps"} & {*spec}


@pytest.mark.usefixtures("address")
def test_a_step_of_a_run_becomes_a_version(ratchet: Any, gateway: ScriptedGateway) -> None:
    ref = {"model": "coder", "number": 3}
    gateway.answers({"version": ref}, {"version": {"ref": ref, "state": "STATE_READY", "policy_id": "sha256:1"}})
    result = ratchet("runs", "export", "run_1", "--step", "10", "--model", "coder", "--detach")
    assert (result.returncode, result.stdout) == (0, "coder@3  sha256:1\n"), result.stderr
    asked = gateway.received[0]
    assert (asked.path, asked.body["model"]) == ("/api/v1/runs/run_1/checkpoints/10/export", "coder")


@pytest.mark.usefixtures("address")
def test_a_run_that_goes_on_itself_stays_as_it_was_made(ratchet: Any) -> None:
    result = ratchet("runs", "resume", "run_1", "--set", "seed=1")
    assert (result.returncode, "it needs --from STEP" in result.stderr) == (2, True)
