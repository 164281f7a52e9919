"""`ratchet costs` against an HTTP server in the gateway's place."""

import json
from typing import Any

import pytest

from ratchet_testing.gateway import ScriptedGateway

USAGE = {"cost": 1.5, "currency": "EUR", "gpu_time": "5400s", "cpu_time": "90s", "prompt_tokens": "1200"}
RUNS = {"runs": [{"id": f"run_{number}", "actor": f"key_{number}", "usage": USAGE} for number in range(25)]}
EVALUATIONS = {"evaluations": [{"id": "eval_1", "actor": "key_7", "usage": USAGE | {"cost": 100}}]}


@pytest.fixture(autouse=True)
def address(ratchet: Any, gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_URL", gateway.url)
    gateway.answers(RUNS, EVALUATIONS)


def test_the_dearest_come_first_and_the_sum_last(ratchet: Any, gateway: ScriptedGateway) -> None:
    lines = ratchet("costs", "--by", "key", "--since", "2026-11-27").stdout.splitlines()
    assert {request.query["after_time"] for request in gateway.received} == {"2026-11-27T00:00:00Z"}
    assert lines[1].split()[:4] == ["key_7", "1", "1", "3.00"]
    assert "101.50 EUR" in lines[1]
    assert (len(lines), lines[-2].split()[:4]) == (23, ["together", "25", "1", "39.00"])
    assert "137.50 EUR" in lines[-2]
    assert lines[-1] == "5 more are summed, and not shown: --json has all."


def test_all_of_them_as_json(ratchet: Any) -> None:
    found = json.loads(ratchet("costs", "--by", "work", "--json").stdout)
    assert (len(found), found[0]["name"], found[0]["usage"]["cost"]) == (26, "eval_1", 100)


def test_an_unknown_group_is_wrong_usage(ratchet: Any) -> None:
    result = ratchet("costs", "--by", "team")
    assert (result.returncode, "key, version, study, work" in result.stderr) == (2, True)
