"""How much time the programs of EvalPlus' tasks have."""

from datetime import timedelta

import pytest

from ratchet_benchmarks.benchmark import LoadedBenchmark
from ratchet_benchmarks.evalplus import HUMAN_EVAL_PLUS


@pytest.mark.parametrize(
    ("base", "plus", "seconds"),
    [
        (0.01, 0.5, 60),  # as in EvalPlus
        (0.0, 30.0, 120),  # four times the reference's
        (20.0, 100.0, 240),  # what a sandbox gives
    ],
)
def test_a_task_has_60_s_or_four_times_what_its_reference_takes(base: float, plus: float, seconds: int) -> None:
    row = {
        "task_id": "HumanEval/0",
        "prompt": "def f(x):\n",
        "entry_point": "f",
        "canonical_solution": "    return x\n",
        "base_input": [[1]],
        "plus_input": [[2]],
        "atol": 0,
    }
    truth = {"base": "[1]", "plus": "[2]", "base_seconds": base, "plus_seconds": plus}
    truth |= {f"{kind}_{what}": empty for kind in ("base", "plus") for what, empty in (("slow", {}), ("left_out", []))}
    contents = HUMAN_EVAL_PLUS.read([row], "", {"HumanEval/0": truth})
    loaded = LoadedBenchmark("humaneval+", "v0", "", "", contents)
    assert loaded.limits(loaded.problems[0]).cpu_time == timedelta(seconds=seconds)
