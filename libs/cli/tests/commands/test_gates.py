"""`ratchet gate` against an HTTP server in the gateway's place."""

from typing import Any

import pytest

from ratchet_testing.gateway import ScriptedGateway

pytestmark = pytest.mark.usefixtures("address")

MODEL = {"model": {"name": "starter", "aliases": {"champion": 1}}}
MEASURED = {"champion_evaluation_id": "eval_1", "candidate_evaluation_id": "eval_2"}
GATE = {"id": "gate_1", "state": "STATE_PENDING"} | MEASURED


def evaluated(gateway: ScriptedGateway, id: str) -> None:
    gateway.answers({"evaluation": {"id": id, "state": "STATE_QUEUED"}})
    gateway.streams(("message", {"evaluation": {"id": id, "state": "STATE_SUCCEEDED"}}))


def decided(gateway: ScriptedGateway, **fields: Any) -> None:
    gateway.answers(MODEL)
    evaluated(gateway, "eval_1")
    evaluated(gateway, "eval_2")
    gateway.answers({"gate": GATE})
    gateway.streams(("message", {"gate": GATE | fields}))
    gateway.answers(*[{"evaluation": {}}] * 2)  # they have no cost


def bodies(gateway: ScriptedGateway) -> list[dict[str, Any]]:
    return [request.body for request in gateway.received if request.body]


def test_one_set_is_measured_and_gated(ratchet: Any, gateway: ScriptedGateway) -> None:
    decided(gateway, state="STATE_PASSED", reason="Passed: it is so.")
    result = ratchet("gate", "--model", "starter@2", "--min-difference", "0.01")
    assert (result.returncode, result.stdout) == (0, "passed  gate_1  Passed: it is so.\n")
    first, second, gate = bodies(gateway)
    assert [one["spec"]["model"]["version"]["number"] for one in (first, second)] == [1, 2]
    assert first["spec"]["problems"] == {"name": "composed/test"}
    assert [first["for_gate"], second["for_gate"]] == [True, True]
    assert gate["min_difference"] == 0.01
    assert (gate["candidate_evaluation_id"], gate["champion_evaluation_id"]) == ("eval_2", "eval_1")
    assert gate.get("rules", {}) == {}


def test_a_guard_is_measured_beside_the_target(ratchet: Any, gateway: ScriptedGateway) -> None:
    decided(gateway, state="STATE_REFUSED", reason="Refused: it lost on mbpp.")
    result = ratchet(
        "gate",
        *("--model", "starter@2", "--guard", "mbpp:0.02", "--guard", "humaneval:0", "--limit", "100"),
        *("--max-unsolved", "3", "--max-tampered-share", "0.01"),
    )
    assert (result.returncode, result.stdout) == (1, "not passed  gate_1  Refused: it lost on mbpp.\n")
    first, second, gate = bodies(gateway)
    names = ("composed/test", "mbpp", "humaneval")
    assert first["spec"]["suite"] == second["spec"]["suite"]
    assert first["spec"]["suite"] == [{"problems": {"name": name, "limit": 100}} for name in names]
    assert gate["rules"] == {
        "target": "composed/test",
        "guards": [{"problems": "mbpp", "max_loss": 0.02}, {"problems": "humaneval"}],
        "max_unsolved": 3,
        "max_tampered_share": 0.01,
    }


def test_a_suite_is_decided_by_its_weighted_score(ratchet: Any, gateway: ScriptedGateway) -> None:
    decided(gateway, state="STATE_PASSED")
    arguments = ("--benchmark", "composed/test=0.4", "--benchmark", "mbpp=0.6", "--guard", "mbpp:0.02")
    assert ratchet("gate", "--model", "starter@2", *arguments).returncode == 0
    first, _, gate = bodies(gateway)
    assert [entry["weight"] for entry in first["spec"]["suite"]] == [0.4, 0.6]
    assert gate["rules"] == {"guards": [{"problems": "mbpp", "max_loss": 0.02}]}


def test_what_could_not_be_decided_is_an_error(ratchet: Any, gateway: ScriptedGateway) -> None:
    decided(gateway, state="STATE_FAILED", failure={"code": "FAILED_PRECONDITION", "message": "trained on it"})
    result = ratchet("gate", "--model", "starter@2")
    assert (result.returncode, result.stdout) == (1, "")
    assert "gate_1 could not be decided: trained on it" in result.stderr


@pytest.mark.parametrize(("gained", "said"), [(0.03, "9.00 EUR, 3.00 EUR for each point gained"), (-0.03, "9.00 EUR")])
def test_a_gate_says_what_it_and_its_candidate_cost(
    ratchet: Any, gateway: ScriptedGateway, gained: float, said: str
) -> None:
    versions = {"candidate": {"model": "starter", "number": 2}, "comparison": {"difference": {"value": gained}}}
    decided(gateway, state="STATE_PASSED", reason="Passed: it is so.", **versions)
    del gateway.replies[-2:]
    priced = [{"usage": {"cost": cost, "currency": "EUR"}} for cost in (1.0, 2.0, 6.0)]
    gateway.answers({"evaluation": priced[0]}, {"evaluation": priced[1]})
    gateway.answers({"version": {"lineage": {"run_id": "run_1"}}}, {"run": priced[2]})
    result = ratchet("gate", "--model", "starter@2")
    assert result.stdout == f"passed  gate_1  Passed: it is so.\nCost: {said}.\n"


def test_a_gate_whose_evaluation_is_gone_has_no_cost(ratchet: Any, gateway: ScriptedGateway) -> None:
    decided(gateway, state="STATE_PASSED", reason="Passed: it is so.")
    del gateway.replies[-2:]
    gateway.answers({"error": {"status": "NOT_FOUND", "message": "there is no evaluation"}}, status=404)
    assert ratchet("gate", "--model", "starter@2").stdout == "passed  gate_1  Passed: it is so.\n"


@pytest.mark.parametrize("guard", ["mbpp", "mbpp:much", "mbpp:"])
def test_a_guard_says_how_much_may_be_lost(ratchet: Any, gateway: ScriptedGateway, guard: str) -> None:
    result = ratchet("gate", "--model", "starter@2", "--guard", guard)
    assert result.returncode == 2
    assert "write SET:LOSS, such as mbpp:0.02" in result.stderr
    assert gateway.received == []


@pytest.mark.parametrize("least", ["-0.11", "1", "nan"])
def test_a_concession_that_no_gate_makes_is_refused_at_once(ratchet: Any, gateway: ScriptedGateway, least: str) -> None:
    result = ratchet("gate", "--model", "coder@2", "--min-difference", least)
    assert (result.returncode, "must be -0.1 or more and below 1" in result.stderr) == (2, True)


def test_the_first_champion_needs_no_gate(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"model": {"name": "starter"}})
    result = ratchet("gate", "--model", "starter@2")
    assert (result.returncode, "ratchet models promote starter@2" in result.stderr) == (1, True)
