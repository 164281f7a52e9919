"""MBPP (Austin et al. 2021, arXiv:2108.07732): short functions from a sentence and three asserts.

Its splits by task id, section 2.1 of the paper: 1 to 10 for prompts, 11 to 510 for tests, 511 to 600 for validation,
the rest for training. The test split is what is measured unless another is named.
"""

import re
from collections.abc import Sequence
from datetime import timedelta

from ratchet_benchmarks.benchmark import Benchmark, Contents, Edition, Row, Truth
from ratchet_environments.task import Limits
from ratchet_problems import CheckTest, Problem
from ratchet_problems.entry_points import entry_point_of
from ratchet_problems.prompting import Prompting, at

_SPLITS = {"": (11, 510), "prompt": (1, 10), "validation": (511, 600), "train": (601, 974), "all": (1, 974)}
_EXAMPLES = (2, 3, 4)
"""Task ids that the paper's prompt has in front."""
_HOME = "https://raw.githubusercontent.com/google-research/google-research/master/mbpp/"
_MIRROR = "https://raw.githubusercontent.com/deepseek-ai/DeepSeek-Coder/main/Evaluation/MBPP/data/"
_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)


def _read(rows: Sequence[Row], part: str, truth: Truth) -> Contents:
    first, last = _SPLITS[part]
    examples = {row["task_id"]: f"{_question(row)}{_reference(row).rstrip()}\n[DONE]\n\n" for row in rows}
    prompting = Prompting(
        message=lambda problem: f"{problem.prompt}\nGive the Python code in a markdown code block.",
        text=lambda problem: f"{problem.prompt}[BEGIN]\n",
        stop=at("[DONE]"),
        examples=tuple(examples[task] for task in _EXAMPLES if task in examples),
        shots=3,
        join=_join,
    )
    problems = tuple(_problem(row) for row in rows if first <= row["task_id"] <= last)
    # task 123 sums amicable numbers, and its own reference takes up to 10 s
    slow = {"Mbpp/123": Limits(timedelta(seconds=60), 1 << 30)}
    return Contents(problems, prompting, Limits(timedelta(seconds=10), 1 << 30), slow)


def _problem(row: Row) -> Problem:
    reference = _reference(row)
    entry_point = entry_point_of("\n".join(row["test_list"]), reference)
    check = "\n".join([*_setup(row), *row["test_list"]]).strip() + "\n"
    # trees and pairs, which the tests make of the program's own classes
    names = tuple(name for name in _CLASS.findall(reference) if name != entry_point and f"{name}(" in check)
    return Problem(
        id=f"Mbpp/{row['task_id']}",
        prompt=_task(row),
        tests=(CheckTest(check, names=names),),
        entry_point=entry_point,
        references=(reference,),
        source="mbpp",
        licence="CC-BY-4.0",
    )


def _task(row: Row) -> str:
    """The paper's words (figure 1)."""
    text = row["text"] if "text" in row else row["prompt"]
    tests = "\n".join(row["test_list"])
    return (
        f"You are an expert Python programmer, and here is your task: {text} "
        f"Your code should pass these tests:\n\n{tests}\n"
    )


def _question(row: Row) -> str:
    return f"{_task(row)}[BEGIN]\n"


def _reference(row: Row) -> str:
    return "\n".join([*row.get("test_imports", ()), str(row["code"]).replace("\r\n", "\n")])


def _setup(row: Row) -> list[str]:
    """The setup code of the tests."""
    return list(row["test_imports"]) if "test_imports" in row else [row["test_setup_code"]]


def _join(problem: Problem, completion: str) -> str:
    return completion.split("[DONE]")[0]


MBPP = Benchmark(
    name="mbpp",
    about="500 short Python functions from a sentence and three asserts (the test split; others: mbpp/train, mbpp/all)",
    licence="CC-BY-4.0",
    editions=(
        Edition(
            "2021-08",
            "147e0434ec6b0e9a69b43d82084ac5afbce79f9f9c085cae6c21c3ace23236dd",
            (f"{_HOME}mbpp.jsonl", f"{_MIRROR}mbpp.jsonl"),
        ),
    ),
    fields=("text", "code", "task_id", "test_setup_code", "test_list", "challenge_test_list"),
    read=_read,
    parts=tuple(_SPLITS),
)
MBPP_SANITIZED = Benchmark(
    name="mbpp-sanitized",
    about="the tasks of mbpp that people have checked: 257 in the test split",
    licence="CC-BY-4.0",
    editions=(
        Edition(
            "2021-08",
            "7a76be064e2b9ca27ccb80896caadb253ff911343acc61eb4870968e2ec88350",
            (f"{_HOME}sanitized-mbpp.json",),
        ),
    ),
    fields=("source_file", "task_id", "prompt", "code", "test_imports", "test_list"),
    read=_read,
    parts=tuple(_SPLITS),
)
