"""CodeContests (Li et al. 2022, arXiv:2203.07814) and APPS (Hendrycks et al. 2021, arXiv:2105.09938): problems of
competitions, whose programs read standard input.

What is printed is compared by its tokens, and an expected decimal by a number within TOLERANCE: most checkers of
competitions ask for that. Problems that accept several answers are not sound here, and `ratchet benchmarks verify`
names them.
"""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ratchet_benchmarks.benchmark import Benchmark, Contents, Edition, Row, Truth
from ratchet_environments.task import Limits
from ratchet_kit import json_text, syntax
from ratchet_problems import CallTest, Problem, StdioTest
from ratchet_problems.prompting import Prompting, at

_ASK = "\n\nWrite a Python program that reads the input from standard input and prints the answer to standard output."
_LIMITS = Limits(timedelta(seconds=10), 1 << 30, output_bytes=1 << 20)
TOLERANCE = 1e-6
"""Absolute or relative."""
_PYTHON3 = 3
"""Its number among CodeContests' languages."""
_LEVELS = {"introductory": 1, "interview": 3, "competition": 5}


def _prompting() -> Prompting:
    return Prompting(
        message=lambda problem: f"{problem.prompt}\n\nGive the Python code in a markdown code block.",
        # APPS' own form
        text=lambda problem: f"\nQUESTION:\n{problem.prompt}\n\nANSWER:\n",
        stop=at("\nQUESTION:"),
        join=lambda problem, completion: completion,
    )


# --- CodeContests


def _code_contests_row(row: Row) -> Row:
    """DeepMind's rows, and those that were made from them: with the tests and the Python of each."""
    if "tests" in row:
        return row
    pairs = [
        {"input": given, "output": wanted}
        for kind in ("public_tests", "private_tests", "generated_tests")
        for given, wanted in zip(row[kind]["input"], row[kind]["output"], strict=True)
    ]
    solutions = row["solutions"]
    python = [
        text
        for language, text in zip(solutions["language"], solutions["solution"], strict=True)
        if language == _PYTHON3
    ]
    return {**row, "tests": pairs, "solution_python3": python[0] if python else ""}


def _code_contests(rows: Sequence[Row], part: str, truth: Truth) -> Contents:
    return Contents(tuple(map(_contest, rows)), _prompting(), _LIMITS)


def _contest(row: Row) -> Problem:
    tests = tuple(StdioTest(_line(test["input"]), _line(test["output"]), tolerance=TOLERANCE) for test in row["tests"])
    reference = row["solution_python3"]
    return Problem(
        id=row["name"],
        prompt=row["description"].strip() + _ASK,
        tests=tests,
        references=(reference,) if reference else (),
        difficulty=_of_letter(row["difficulty"]),
        source="codecontests",
        licence="CC-BY-4.0",
        tags=tuple(tag for tag in row["cf_tags"] if tag),
    )


def _of_letter(difficulty: str | int) -> int:
    """CodeContests' numbers: 7 is Codeforces' A, 8 its B."""
    text = str(difficulty)
    return min(max(int(text) - 6, 1), 5) if text.isdigit() else 5


def _line(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


# --- APPS


def _apps_row(row: Row) -> Row:
    """The rows of APPS itself, and those of MapCoder, which has other names for the same."""
    if "input_output" in row:
        return row
    tests = row["test_list"]
    name = row["starter_code"].partition("def ")[2].partition("(")[0].strip()
    both = {
        "inputs": [_arguments(test["input"]) if name else test["input"] for test in tests],
        "outputs": [test["output"] if name else "\n".join(map(str, test["output"])) for test in tests],
    }
    return {
        "problem_id": row["id"],
        "question": row["description"],
        "solutions": "",
        "input_output": json.dumps(both | ({"fn_name": name} if name else {})),
        "difficulty": row["difficulty"],
        "starter_code": row["starter_code"],
    }


def _arguments(text: str) -> list[Any]:
    """One argument per line: a Python literal, or else a text. A line of digits is taken for a number."""
    found = []
    for line in text.split("\n"):
        try:
            found.append(syntax.literal(line))
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            found.append(line)
    return found


def _apps(rows: Sequence[Row], part: str, truth: Truth) -> Contents:
    problems = tuple(found for row in rows if (found := _app(row)))
    return Contents(problems, _prompting(), _LIMITS)


def _app(row: Row) -> Problem | None:
    """None for a row without tests, of which APPS has some."""
    if not row["input_output"]:
        return None
    both = json_text.read(row["input_output"])
    name, pairs = both.get("fn_name", ""), list(zip(both["inputs"], both["outputs"], strict=False))
    if not pairs:
        return None
    starter = row["starter_code"].strip()
    solutions = json_text.read(row["solutions"]) if row["solutions"] else []
    ask = f"\n\nComplete this code:\n```python\n{starter}\n```" if name else _ASK
    return Problem(
        id=f"APPS/{row['problem_id']}",
        prompt=row["question"].strip() + ask,
        tests=tuple(_call(given, wanted) if name else _stdio(given, wanted) for given, wanted in pairs),
        entry_point=(f"Solution.{name}" if "class Solution" in starter else name) if name else "",
        references=tuple(solutions[:1]),
        difficulty=_LEVELS.get(row["difficulty"], 3),
        source="apps",
        licence="MIT",
        tags=(row["difficulty"],),
    )


def _call(given: Any, wanted: Any) -> CallTest:
    """The expected value stands in a list of one."""
    expected = wanted[0] if isinstance(wanted, list) and len(wanted) == 1 else wanted
    return CallTest.of(given, expected)


def _stdio(given: Any, wanted: Any) -> StdioTest:
    """Either may be a list of lines."""
    stdin, stdout = ("\n".join(map(str, text)) if isinstance(text, list) else str(text) for text in (given, wanted))
    return StdioTest(_line(stdin), _line(stdout), tolerance=TOLERANCE)


CODE_CONTESTS = Benchmark(
    name="codecontests",
    about="problems of programming contests with their tests (a Python selection of DeepMind's)",
    licence="CC-BY-4.0",
    editions=(Edition("python-300", "61a600acdb256cd3fe7c40dbbf1dcc6bfc2ebaa86654fc0c362763eaa0d69371"),),
    fields=("name", "description", "difficulty", "cf_tags", "tests", "solution_python3"),
    read=_code_contests,
    adapt=_code_contests_row,
)
APPS = Benchmark(
    name="apps",
    about="problems from introductory to competition, on standard input or as functions (MapCoder's selection)",
    licence="MIT",
    editions=(
        Edition(
            "selected-150",
            "89d3b88df3ed08ec94b416ed767899d404f1b16b49602e52c07ff9e092a4ed8a",
            ("https://raw.githubusercontent.com/Md-Ashraful-Pramanik/MapCoder/main/data/APPS/selected150.jsonl",),
        ),
    ),
    fields=("problem_id", "question", "solutions", "input_output", "difficulty", "starter_code"),
    read=_apps,
    adapt=_apps_row,
)
