"""HumanEval-X (Zheng et al. 2023, arXiv:2303.17568): HumanEval's functions in other languages, with tests in them.

Go's tests need testify, and Rust's crates, which the sandbox has not: these two are not here.
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from ratchet_benchmarks.benchmark import Benchmark, Contents, Edition, Row, Truth
from ratchet_environments.task import Limits
from ratchet_problems import CheckTest, Problem
from ratchet_problems.extraction import program_of
from ratchet_problems.prompting import END_OF_TEXT, Prompting, at

_HOME = "https://raw.githubusercontent.com/THUDM/CodeGeeX/main/codegeex/benchmark/humaneval-x"
_NAMES = {"cpp": "C++", "java": "Java", "javascript": "JavaScript"}
_ASSERT = 'console.assert = require("node:assert").ok;\n'
"""Node's console.assert prints, and goes on: who wrote the tests counts what is printed as failed."""


def _read(language: str, rows: Sequence[Row], part: str, truth: Truth) -> Contents:
    return Contents(
        tuple(_problem(language, row) for row in rows),
        Prompting(message=partial(_message, language), stop=at(*END_OF_TEXT), join=program_of),
        Limits(timedelta(seconds=5), 2 << 30),
    )


def _message(language: str, problem: Problem) -> str:
    return (
        f"Please provide a self-contained {_NAMES[language]} program that solves the following problem in a markdown "
        f"code block. Leave out the main function:\n```{language}\n{problem.prompt.strip()}\n```"
    )


def _problem(language: str, row: Row) -> Problem:
    before = _ASSERT if language == "javascript" else ""
    return Problem(
        id=row["task_id"],
        prompt=row["prompt"],
        tests=(CheckTest(before + row["test"], shared=True),),
        references=(row["prompt"] + row["canonical_solution"],),
        source="humaneval-x",
        licence="Apache-2.0",
        language=language,
    )


def _benchmark(language: str, short: str, digest: str) -> Benchmark:
    return Benchmark(
        name=f"humaneval-{short}",
        about=f"HumanEval-X: 164 functions in {_NAMES[language]}",
        licence="Apache-2.0",
        editions=(Edition("2022-09", digest, (f"{_HOME}/{short}/data/humaneval_{short}.jsonl.gz",)),),
        fields=("task_id", "prompt", "canonical_solution", "test"),
        read=partial(_read, language),
    )


HUMAN_EVAL_X = (
    _benchmark("cpp", "cpp", "85fd6364521f272b16b98b82aa0b6a21c008d0a4eee7a4c25a7409fc08d2b728"),
    _benchmark("java", "java", "49070648554e6917ec2c8f700258fea7af8c94642918a6fc49c0e804a82e4860"),
    _benchmark("javascript", "js", "8256a540862cec11ac34dcde5a1536756709c3e7b2ddd421030cbc536a7e5f5f"),
)
