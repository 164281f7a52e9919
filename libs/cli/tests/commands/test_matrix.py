"""`ratchet matrix` against an HTTP server in the gateway's place."""

import json
from typing import Any

import pytest

from ratchet_testing.gateway import Reply, ScriptedGateway
from ratchet_workflows import matrices

REFUSED = {"error": {"code": "INVALID_ARGUMENT", "message": "there is no set 'nothing'"}}


@pytest.fixture(autouse=True)
def address(ratchet: Any, gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_URL", gateway.url)
    monkeypatch.setattr(matrices, "POLL_S", 0.01)


def evaluation(id: str, state: str, **fields: Any) -> dict[str, Any]:
    estimate = {"value": 0.5, "low": 0.4, "high": 0.6}
    scores = [{"k": 1, "estimate": estimate}] if state == "SUCCEEDED" else []
    return {"evaluation": {"id": id, "state": f"STATE_{state}", "pass_at_k": scores, **fields}}


def version(number: int, base: int = 0) -> dict[str, Any]:
    lineage = {"base": {"version": {"model": "m", "number": base}}} if base else {}
    return {"version": {"ref": {"model": "m", "number": number}, "lineage": lineage}}


def test_every_cell_is_an_evaluation(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers(*(evaluation(f"e{i}", "QUEUED") for i in range(4)), evaluation("e0", "RUNNING", problems_total=9))
    gateway.answers(*(evaluation(f"e{i}", "SUCCEEDED") for i in (1, 2, 3, 0)))
    options = ("--benchmark", "basics", "--temperature", "0", "--temperature", "0.8")
    result = ratchet("matrix", "--model", "m@1", "--model", "m@2", *options, "--k", "1", "--k", "4")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split("  ")[0] == "pass@1"
    assert "basics, T 0.8" in lines[0]
    assert lines[1].count("0.500 [0.400, 0.600]") == 2
    assert lines[3] == "As a page: ratchet report e0 e1 e2 e3"
    specs = [one.body["spec"] for one in gateway.received[:4] if one.body]
    # greedy samples are all the same
    assert [(spec["samples_per_problem"], spec["k"]) for spec in specs[:2]] == [(1, [1]), (4, [1, 4])]
    ids = [one.body["request_id"] for one in gateway.received[:4] if one.body]
    assert len(set(ids)) == 4


def test_the_same_command_goes_on_and_what_failed_is_made_again(ratchet: Any, gateway: ScriptedGateway) -> None:
    ids = []
    for _ in range(2):
        gateway.answers(evaluation("e0", "FAILED"), evaluation("e1", "SUCCEEDED"))
        assert ratchet("matrix", "--model", "m@1", "--benchmark", "basics").returncode == 0
        ids.append([one.body["request_id"] for one in gateway.received if one.body])
        gateway.received.clear()
    assert ids[0] == ids[1]
    assert [id.rpartition("-")[2] for id in ids[0]] == ["0", "1"]


def test_one_cell_that_is_refused_does_not_lose_the_others(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers(evaluation("e0", "QUEUED"))
    gateway.replies.append(Reply(REFUSED, status=400))
    gateway.answers(evaluation("e0", "SUCCEEDED"))
    result = ratchet("matrix", "--model", "m@1", "--benchmark", "basics", "--benchmark", "nothing", "--json")
    assert result.returncode == 1
    cells = json.loads(result.stdout)["cells"]
    assert [cell["state"] for cell in cells] == ["SUCCEEDED", "REFUSED"]
    assert "nothing" in cells[1]["error"]


def test_an_evaluation_that_fails_and_a_model_that_is_not_there_are_said(
    ratchet: Any, gateway: ScriptedGateway
) -> None:
    gateway.replies.append(Reply({"error": {"code": "NOT_FOUND", "message": "there is no model 'gone'"}}, status=404))
    gateway.answers(evaluation("e0", "QUEUED"), evaluation("e0", "FAILED", failure={"message": "no weights"}))
    result = ratchet("matrix", "--model", "gone", "--model", "m@1", "--benchmark", "basics")
    assert result.returncode == 1
    assert "gone on basics, T 0: there is no model 'gone'" in result.stdout
    assert "m@1 on basics, T 0: FAILED: no weights" in result.stdout


def test_base_puts_what_a_model_was_trained_from_beside_it(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers(version(3, base=2), version(2, base=1), version(1))
    gateway.answers(*(evaluation(f"e{i}", "SUCCEEDED") for i in (3, 2, 1)))
    gain = {"comparison": {"difference": {"value": 0.1, "low": 0.05, "high": 0.15}, "p_value": 0.01}}
    gateway.answers(gain, gain, gain)
    result = ratchet("matrix", "--model", "m@3", "--benchmark", "basics", "--base")
    assert result.returncode == 0, result.stderr
    assert [line.split()[0] for line in result.stdout.splitlines()[1:4]] == ["m@3", "m@2", "m@1"]
    compared = [one.body for one in gateway.received if one.path.endswith("compare")]
    pairs = [(one["candidate_id"], one["baseline_id"]) for one in compared if one]
    assert pairs == [("e3", "e2"), ("e3", "e1"), ("e2", "e1")]
    assert "+0.050 to +0.150" in result.stdout
