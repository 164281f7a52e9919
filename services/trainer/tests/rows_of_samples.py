"""Rows of the table of samples."""

from typing import Any

from ratchet_environments.failures import FailedTest
from trainer_service.domain.run.sample import Sample


def row(step: int = 1, place: int = 0, index: int = 0, **changed: Any) -> Sample:
    values: dict[str, Any] = {
        "problem_id": f"p{place}",
        "prompt": "<|user|>Write f.<|assistant|>",
        "completion": "def f(x): return 'é'<|end|>",
        "verdict": "FAILED",
        "tests_passed": 1,
        "tests_total": 3,
        "detail": "gave 2, not 3",
        "failed_tests": (FailedTest("f(1)", "3", "2"), FailedTest("f(2)", error="TypeError")),
        "held_out_failed": 1,
        "stderr": "",
        "reward": 0.25,
        "components": {"tests_fraction": 0.25, "brevity@2": 1.0},
        "advantage": -0.5,
        "policy_id": "sha256:p",
        "tokens": 9,
        "truncated": False,
        "turns": 1,
        "staleness": 0,
        "attempt": 1,
    }
    return Sample(step, place, index, **(values | changed))
