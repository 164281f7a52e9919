"""`ratchet evaluations list` and `show` against an HTTP server in the gateway's place."""

from typing import Any

import pytest

from ratchet_testing.gateway import ScriptedGateway

EVALUATION = {
    "id": "eval_1",
    "state": "STATE_SUCCEEDED",
    "spec": {"model": {"model": "starter"}, "problems": {"name": "basics"}, "samples_per_problem": 4, "temperature": 1},
    "version": {"model": "starter", "number": 2},
    "create_time": "2026-01-02T03:04:05Z",
    "verdicts": {"RUNTIME_ERROR": 3, "FAILED": 3, "PASSED": 1, "NEW": 9},
    "benchmarks": [{"problems": {"name": "basics"}, "failures": {"CRASH": 3, "WRONG": 3}}],
}


@pytest.mark.usefixtures("address")
def test_evaluations_are_listed_with_version_and_reason(ratchet: Any, gateway: ScriptedGateway) -> None:
    sentence = "programs[9].tests[0].check.code: is no Python"
    spec = EVALUATION["spec"] | {"display_name": "nightly"}
    failed = EVALUATION | {"spec": spec, "state": "STATE_FAILED", "failure": {"message": sentence}}
    gateway.answers({"evaluations": [failed]})
    asked = ("--state", "failed", "--model", "starter", "--since", "2026-01-01T00:00:00+00:00", "--name", "night")
    (_, line) = ratchet("evaluations", "list", *asked).stdout.splitlines()
    assert line.split()[:4] == ["eval_1", "nightly", "starter@2", "basics"]
    assert line.endswith(f"FAILED: {sentence}")
    query = gateway.received[-1].query
    asked_for = (query["state"], query["after_time"], query["name"])
    assert asked_for == ("STATE_FAILED", "2026-01-01T00:00:00Z", "night")


@pytest.mark.usefixtures("address")
def test_one_is_shown_with_its_times_and_counts_in_one_order(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"evaluation": EVALUATION})
    lines = ratchet("evaluations", "show", "eval_1").stdout.splitlines()
    assert "model     starter@2" in lines
    assert any(line.startswith("created   2026-01-0") and line.endswith("d ago)") for line in lines)
    assert "eval_1: 0 problems; PASSED 1, FAILED 3, RUNTIME_ERROR 3, NEW 9" in lines
    assert "basics: wrong 3, crash 3" in lines


@pytest.mark.usefixtures("address")
@pytest.mark.parametrize(
    ("forecast", "said"),
    [
        ({"cost": 0.5, "currency": "EUR", "cpu_time": "90s"}, "Forecast: about 0.50 EUR, 1 min 30 s of CPU."),
        (None, "No forecast: no evaluation of starter on basics in this way has succeeded yet."),
    ],
)
def test_a_new_one_says_what_it_is_expected_to_use(
    ratchet: Any, gateway: ScriptedGateway, forecast: dict[str, Any] | None, said: str
) -> None:
    made = EVALUATION | {"state": "STATE_QUEUED"} | ({"forecast": forecast} if forecast else {})
    gateway.answers({"evaluation": made}, {"evaluation": made})
    result = ratchet("evaluate", "--model", "starter", "--benchmark", "basics", "--detach")
    assert (result.stdout.split(), result.stderr.splitlines()) == (["eval_1"], [said])
    shown = ratchet("evaluations", "show", "eval_1").stdout
    assert ("forecast  about 0.50 EUR" in shown) == bool(forecast)
