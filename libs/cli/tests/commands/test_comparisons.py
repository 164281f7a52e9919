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
        {
            "name": "mbpp",
            "comparison": COMPARISON,
            "adjusted_p_value": 0.04,
            "unsolved": ["mbpp/7"],
            "changed": [
                {"problem_id": "mbpp/7", "baseline": 1.0, "candidate": 0.0},
                *({"problem_id": f"mbpp/2{place}", "baseline": 0.0, "candidate": 0.25} for place in range(12)),
            ],
        },
        {"name": "humaneval", "comparison": COMPARISON | {"clusters": 100}, "adjusted_p_value": 0.04},
    ]
    gateway.answers({"comparison": COMPARISON, "benchmarks": sets})
    result = ratchet("evaluations", "compare", "eval_1", "eval_2", "--confidence", "0.99")
    assert gateway.received[0].body == {"baseline_id": "eval_1", "candidate_id": "eval_2", "confidence": 0.99}
    for shown in ("99 % interval", "+0.010 to +0.090", "100 in 40 families", "whole score", "0.057"):
        assert shown in result.stdout
    assert "mbpp: won mbpp/211 (0 to 0.25), mbpp/210 (0 to 0.25), " in result.stdout
    assert ", and 2 more (--json has all)\nmbpp: lost mbpp/7 (1 to 0)\n" in result.stdout
    assert "mbpp: always solved by the baseline, never by the candidate: mbpp/7" in result.stdout


def test_both_answers_to_a_problem_are_shown_with_prompt_and_tests(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers(
        {"prompt": "user: Add.", "tests": [{"test": "f(1)", "expected": "2"}], "held_out_tests": 3},
        {
            "samples": [
                {
                    "problem_id": "p",
                    "completion": "old",
                    "verdict": "VERDICT_FAILED",
                    "tests_total": 4,
                    "failed_tests": [{"test": "f(1)", "expected": "2", "got": "1"}],
                    "held_out_failed": 2,
                }
            ]
        },
        {"samples": [{"problem_id": "p", "completion": "new", "verdict": "VERDICT_PASSED"}]},
    )
    result = ratchet("evaluations", "compare", "eval_1", "eval_2", "--problem", "p", "--benchmark", "mbpp")
    said = ["user: Add.", "f(1): 2", "3 held-out", "Baseline #0: FAILED, 0 of 4 tests", "old", "failed: f(1): 1, not 2"]
    said += ["held-out tests that failed: 2", "Candidate #0: PASSED", "new"]
    places = [result.stdout.find(text) for text in said]
    assert places == sorted(places), result.stdout
    assert places[0] >= 0, result.stdout
    asked = [(one.path.partition("?")[0], one.query) for one in gateway.received]
    assert asked[0] == ("/api/v1/evaluations/eval_1/problem", {"benchmark": "mbpp", "problem_id": "p"})


def test_a_plan_is_said_in_a_sentence(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"detectable_difference": 0.0412, "problems": 164, "samples_per_problem": 10})
    result = ratchet("evaluations", "plan", "eval_1", "--samples", "10", "--power", "0.9")
    assert gateway.received[0].body == {"baseline_id": "eval_1", "samples_per_problem": 10, "power": 0.9}
    assert result.stdout == (
        "164 problems x 10 samples show a difference of 0.041 in pass@1 with a probability of 90%.\n"
    )
