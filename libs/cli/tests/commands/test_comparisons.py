"""`ratchet evaluations compare` and `plan` against an HTTP server in the gateway's place."""

from typing import Any

import pytest

from ratchet_testing.gateway import ScriptedGateway

COMPARISON = {
    "baseline": {"value": 0.5, "low": 0.4, "high": 0.6},
    "candidate": {"value": 0.55, "low": 0.45, "high": 0.65},
    "difference": {"value": 0.05, "low": 0.01, "high": 0.09},
    "p_value": 0.02,
    "problems": 100,
    "clusters": 40,
    "won": 9,
    "lost": 4,
    "detectable_difference": 0.057,
}


@pytest.fixture(autouse=True)
def address(ratchet: Any, gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_URL", gateway.url)
    monkeypatch.setenv("COLUMNS", "200")


def test_each_set_and_the_whole_score_are_shown(ratchet: Any, gateway: ScriptedGateway) -> None:
    sets = [
        {"name": "mbpp", "comparison": COMPARISON, "adjusted_p_value": 0.04, "unsolved": ["mbpp/7"]},
        {"name": "humaneval", "comparison": COMPARISON | {"clusters": 100}, "adjusted_p_value": 0.04},
    ]
    gateway.answers({"comparison": COMPARISON, "benchmarks": sets})
    result = ratchet("evaluations", "compare", "eval_1", "eval_2", "--confidence", "0.99")
    assert gateway.received[0].body == {"baseline_id": "eval_1", "candidate_id": "eval_2", "confidence": 0.99}
    for shown in ("99 % interval", "+0.010 to +0.090", "100 in 40 families", "whole score", "0.057"):
        assert shown in result.stdout
    assert "mbpp: always solved by the baseline, never by the candidate: mbpp/7" in result.stdout


def test_a_plan_is_said_in_a_sentence(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"detectable_difference": 0.0412, "problems": 164, "samples_per_problem": 10})
    result = ratchet("evaluations", "plan", "eval_1", "--samples", "10", "--power", "0.9")
    assert gateway.received[0].body == {"baseline_id": "eval_1", "samples_per_problem": 10, "power": 0.9}
    assert result.stdout == (
        "164 problems x 10 samples show a difference of 0.041 in pass@1 with a probability of 90%.\n"
    )
