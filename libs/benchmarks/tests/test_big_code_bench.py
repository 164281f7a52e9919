"""The program of a sample is what BigCodeBench's evaluator runs."""

from datetime import timedelta

from ratchet_benchmarks.benchmark import LoadedBenchmark
from ratchet_benchmarks.big_code_bench import BIG_CODE_BENCH

CODE_PROMPT = "import os\ndef task_func(a):\n"
PROMPT = f'{CODE_PROMPT}    """Adds one."""\n'
ROW = {
    "task_id": "BigCodeBench/0",
    "complete_prompt": PROMPT,
    "instruct_prompt": "Write a function that adds one.",
    "canonical_solution": "    return a + 1",
    "code_prompt": CODE_PROMPT,
    "test": "import unittest\n",
    "entry_point": "task_func",
    "libs": "['os']",
}
START = f"{CODE_PROMPT}\n    pass\n"


def loaded() -> LoadedBenchmark:
    return LoadedBenchmark("bigcodebench", "v0", "", "", BIG_CODE_BENCH.read([ROW], "", {}))


def test_completions_and_solutions_are_calibrated() -> None:
    benchmark = loaded()
    (problem,) = benchmark.problems
    assert benchmark.program(problem, "    return a\n") == f"{START}{PROMPT}    return a\n"
    solution = "def task_func(a):\n    return os.path.join(a)\n"
    assert benchmark.solution(problem, solution) == START + solution


def test_what_is_calibrated_stays_as_it_is() -> None:
    benchmark = loaded()
    (problem,) = benchmark.problems
    assert benchmark.solution(problem, f"{START}def task_func(a): ...") == f"{START}def task_func(a): ..."


def test_programs_have_the_time_that_bigcodebench_gives() -> None:
    benchmark = loaded()
    assert benchmark.limits(benchmark.problems[0]).cpu_time == timedelta(seconds=240)
