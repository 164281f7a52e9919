"""`ratchet costs` against an HTTP server in the gateway's place."""

import json
from typing import Any

import pytest

from ratchet_testing.gateway import ScriptedGateway

USAGE = {"cost": 1.5, "currency": "EUR", "gpu_time": "5400s", "cpu_time": "90s", "prompt_tokens": "1200"}
DEAREST = {"name": "key_7", "runs": "1", "evaluations": "1", "answers": "12", "usage": USAGE | {"cost": 101.5}}
OTHERS = [{"name": f"key_x{number}", "runs": "1", "usage": USAGE} for number in range(24)]
TOTAL = {"name": "together", "runs": "25", "evaluations": "1", "answers": "12", "usage": USAGE | {"cost": 137.5}}


@pytest.fixture(autouse=True)
def address(ratchet: Any, gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_URL", gateway.url)
    gateway.answers({"accounts": [DEAREST, *OTHERS], "total": TOTAL})


def test_the_dearest_come_first_and_the_sum_last(ratchet: Any, gateway: ScriptedGateway) -> None:
    lines = ratchet("costs", "--by", "key", "--since", "2026-11-27").stdout.splitlines()
    [request] = gateway.received
    assert request.query == {"by": "BY_KEY", "after_time": "2026-11-27T00:00:00Z"}
    assert lines[1].split()[:5] == ["key_7", "1", "1", "12", "1.50"]
    assert "101.50 EUR" in lines[1]
    assert (len(lines), lines[-2].split()[:4]) == (23, ["together", "25", "1", "12"])
    assert "137.50 EUR" in lines[-2]
    assert lines[-1] == "5 more are summed, and not shown: --json has the 1,000 dearest."


def test_all_of_them_as_json(ratchet: Any) -> None:
    found = json.loads(ratchet("costs", "--by", "work", "--json").stdout)
    assert (len(found["accounts"]), found["accounts"][0]["usage"]["cost"]) == (25, 101.5)


def test_an_unknown_group_is_wrong_usage(ratchet: Any) -> None:
    result = ratchet("costs", "--by", "team")
    assert (result.returncode, "key, version, study, work" in result.stderr) == (2, True)
