"""`ratchet evaluations trend` against an HTTP server in the gateway's place."""

import json
from typing import Any

import pytest

from ratchet_testing.gateway import ScriptedGateway

SCORE = {"value": 0.5, "low": 0.4, "high": 0.6}
VERSIONS = {"versions": [{"ref": {"model": "m", "number": n}, "policy_id": f"sha256:{n}"} for n in (3, 2, 1)]}


def evaluation(id: str, number: int = 0, **fields: Any) -> dict[str, Any]:
    model = {"version": {"model": "m", "number": number}} if number else {"alias": {"model": "m", "alias": "best"}}
    scores = [{"problems": {"name": name}, "pass_at_k": [{"k": 1, "estimate": SCORE}]} for name in ("mbpp", "other")]
    return {"id": id, "state": "STATE_SUCCEEDED", "spec": {"model": model}, "benchmarks": scores} | fields


@pytest.fixture(autouse=True)
def address(ratchet: Any, gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_URL", gateway.url)
    monkeypatch.setenv("COLUMNS", "200")


def test_the_newest_score_of_each_version_is_compared_with_the_one_before(
    ratchet: Any, gateway: ScriptedGateway
) -> None:
    listed = [
        evaluation("eval_6", 2, state="STATE_RUNNING"),
        evaluation("eval_5", policy_id="sha256:3"),
        evaluation("eval_4", 2),
        evaluation("eval_3", 2),
        evaluation("eval_1", 1),
    ]
    change = {"difference": {"value": 0.1, "low": 0.02, "high": 0.18}, "p_value": 0.01}
    compared = {"benchmarks": [{"name": "other"}, {"name": "mbpp", "comparison": change}]}
    gateway.answers(VERSIONS, {"evaluations": listed}, compared)
    gateway.answers({"error": {"code": "FAILED_PRECONDITION", "message": "differ in their problems"}}, status=400)
    result = ratchet("evaluations", "trend", "m", "--benchmark", "mbpp", "--json")
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)
    assert [(row["version"], row["evaluation_id"]) for row in rows] == [(1, "eval_1"), (2, "eval_4"), (3, "eval_5")]
    assert [row["change"] and row["change"]["difference"]["value"] for row in rows] == [None, 0.1, None]
    assert gateway.received[1].query | {"model": "m", "problems": "mbpp"} == gateway.received[1].query
    assert gateway.received[2].body == {"baseline_id": "eval_1", "candidate_id": "eval_4"}


def test_a_table_for_people(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers(VERSIONS, {"evaluations": [evaluation("eval_1", 1)]})
    result = ratchet("evaluations", "trend", "m", "--benchmark", "mbpp")
    assert result.stdout.splitlines()[1].split()[:5] == ["1", "0.500", "0.400", "to", "0.600"]


def test_what_was_never_measured_is_said(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers(VERSIONS, {})
    result = ratchet("evaluations", "trend", "m")
    assert (result.returncode, "was measured on composed/test" in result.stderr) == (1, True)
