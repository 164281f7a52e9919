"""`ratchet models` against an HTTP server in the gateway's place."""

from typing import Any

import pytest

from ratchet_testing.gateway import ScriptedGateway

pytestmark = pytest.mark.usefixtures("address")

REF = {"model": "starter", "number": 2}


def test_adding_waits_until_the_version_is_ready(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"version": {"ref": REF, "state": "STATE_PENDING"}})
    ready = {"ref": REF, "state": "STATE_READY", "policy_id": "sha256:abc"}
    gateway.streams(("message", {"version": {"ref": REF, "state": "STATE_PENDING"}}), ("message", {"version": ready}))
    result = ratchet("models", "add", "starter", "s3://bucket/weights")
    assert result.stdout == "starter@2  sha256:abc\n"
    assert result.stderr == "starter@2: its weights are copied and hashed\n"
    assert [request.path for request in gateway.received] == [
        "/api/v1/models/starter/versions",
        "/api/v1/models/starter/versions/2/watch",
    ]


def test_a_version_that_failed_is_said_once(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"version": {"ref": REF, "state": "STATE_PENDING"}})
    failed = {
        "ref": REF,
        "state": "STATE_FAILED",
        "failure": {"code": "NOT_FOUND", "message": "there is no such folder"},
    }
    gateway.streams(("message", {"version": failed}))
    result = ratchet("models", "add", "starter", "s3://bucket/weights")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.count("there is no such folder") == 1


def test_promoting_says_where_the_alias_was_seen(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"model": {"name": "starter", "aliases": {"champion": 1}}}, {"model": {"name": "starter"}})
    result = ratchet("models", "promote", "starter@2", "--gate", "gate_1")
    assert result.stdout == "starter:champion -> 2\n"
    assert gateway.received[-1].body == {"number": 2, "expected_number": 1, "gate_id": "gate_1"}


@pytest.mark.parametrize(
    ("name", "path"), [("starter@2", "/api/v1/models/starter/versions/2"), ("starter", "/api/v1/models/starter")]
)
def test_deleting_a_version_or_a_model(ratchet: Any, gateway: ScriptedGateway, name: str, path: str) -> None:
    gateway.answers({})
    assert ratchet("models", "delete", name).stdout == f"{name} is deleted.\n"
    assert [(request.verb, request.path) for request in gateway.received] == [("DELETE", path)]


def test_an_alias_cannot_be_deleted(ratchet: Any) -> None:
    assert ratchet("models", "delete", "starter:champion").returncode == 2


def test_versions_are_shown_with_where_they_come_from(ratchet: Any, gateway: ScriptedGateway) -> None:
    lineage = {"base": {"version": {"model": "starter", "number": 1}}, "run_id": "run_1", "step": 60}
    change = {"alias": "champion", "to_number": 1, "reason": "first version"}
    gateway.answers(
        {"model": {"name": "starter", "aliases": {"champion": 1}}},
        {"versions": [{"ref": REF, "state": "STATE_READY", "lineage": lineage}, {"ref": {"number": 1}}]},
        {"changes": [change]},
    )
    lines = ratchet("models", "show", "starter").stdout.splitlines()
    assert lines[1].split()[:6] == ["2", "READY", "-", "starter@1", "run_1", "60"]
    assert lines[2].split()[2] == "champion"
    assert lines[3] == "champion: none -> 1, -: first version"


def test_one_version_is_shown_with_its_files(ratchet: Any, gateway: ScriptedGateway) -> None:
    version = {"ref": REF, "state": "STATE_READY", "artifact_uri": "s3://bucket/art_1", "size_bytes": 1 << 21}
    lineage = {"run_id": "run_1", "step": 60}
    gateway.answers({"version": version | {"lineage": lineage}})
    lines = ratchet("models", "show", "starter@2").stdout.splitlines()
    assert gateway.received[0].path == "/api/v1/models/starter/versions/2"
    fields = {name: value.strip() for name, _, value in (line.partition("  ") for line in lines)}
    assert (fields["files"], fields["size"], fields["run"]) == ("s3://bucket/art_1", "2.0 MiB", "run_1, step 60")


def test_failed_versions_are_counted_and_say_why(ratchet: Any, gateway: ScriptedGateway) -> None:
    model = {"name": "starter", "latest_version": 2, "failed_versions": 1}
    failed = {"ref": REF, "state": "STATE_FAILED", "failure": {"message": "there is no such folder"}}
    failed["labels"] = {"learned": "nothing"}
    gateway.answers({"models": [model]}, {"model": model}, {"versions": [failed]}, {"changes": []})
    assert "2 (1 failed)" in ratchet("models", "list").stdout
    shown = ratchet("models", "show", "starter").stdout
    assert "starter@2 failed: there is no such folder" in shown
    assert "starter@2 is labelled learned: nothing" in shown


def test_loading_waits_until_it_is_ready(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"policy_id": ""}, {"policy_id": "sha256:abc"})
    assert ratchet("models", "load", "starter@2").stdout == "starter@2 is loaded: sha256:abc\n"
    assert [request.path for request in gateway.received] == ["/api/v1/models/starter/versions/2/load"] * 2
    gateway.answers({"policy_id": ""})
    assert ratchet("models", "load", "starter@2", "--detach").stdout == "starter@2 is being loaded.\n"


def test_unloading(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({})
    assert ratchet("models", "unload", "starter@2").stdout == "starter@2 is unloaded.\n"
    assert [request.path for request in gateway.received] == ["/api/v1/models/starter/versions/2/unload"]


def test_the_health_of_a_version(ratchet: Any, gateway: ScriptedGateway) -> None:
    day = {
        "start_time": "2026-11-27T00:00:00Z",
        "arm": "ARM_NONE",
        "requests": "40",
        "errors": "10",
        "latency_p50": "1.500s",
        "prompt_tokens": "100",
        "completion_tokens": "20",
        "scored": "4",
        "mean_score": 0.75,
    }
    notices = [{"message": "2026-11-27: error rate 25 % against 1 %"}]
    gateway.answers({"days": [day], "notices": notices, "answers": "30", "usage": {"cost": 1.5, "currency": "EUR"}})
    result = ratchet("models", "health", "starter@2", "--days", "3")
    assert gateway.received[-1].path.split("?")[0] == "/api/v1/models/starter/versions/2/health"
    assert "30 answers cost 1.50 EUR, 50.00 EUR for 1,000 answers" in result.stdout
    for shown in ("2026-11-27", "none", "40", "10", "1.50", "120", "0.750", "worse: 2026-11-27: error rate 25 %"):
        assert shown in result.stdout
