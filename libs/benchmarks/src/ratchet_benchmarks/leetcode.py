"""LeetCodeDataset (Xia et al. 2025, arXiv:2504.14655): methods of a `Solution`, with tests."""

import re
from collections.abc import Sequence
from datetime import timedelta

from ratchet_benchmarks.benchmark import Benchmark, Contents, Edition, Row, Truth
from ratchet_environments.task import Limits
from ratchet_problems import CheckTest, Problem
from ratchet_problems.prompting import FUNCTION_STOP, Prompting, at

_DIFFICULTY = {"Easy": 1, "Medium": 3, "Hard": 5}
_HOME = "https://raw.githubusercontent.com/newfacade/LeetCodeDataset/main/data/LeetCodeDataset-v0.2.0-test.jsonl.gz"
_SORTED = "from sortedcontainers import SortedList\n"
_FENCE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def _read(rows: Sequence[Row], part: str, truth: Truth) -> Contents:
    prompting = Prompting(message=_question, text=_start, stop=at(*FUNCTION_STOP), join=_join)
    found = tuple(map(_problem, rows))
    level = _DIFFICULTY.get(part.capitalize())
    chosen = tuple(one for one in found if not level or one.difficulty == level)
    return Contents(chosen, prompting, Limits(timedelta(seconds=20), 1 << 30))


def _problem(row: Row) -> Problem:
    # only those that use it need the package
    given = row["prompt"] if "SortedList" in row["completion"] else row["prompt"].replace(_SORTED, "")
    return Problem(
        id=row["task_id"],
        prompt=f"{given}\n\n{_MARK}\n{row['query']}",
        tests=(CheckTest(row["test"]),),
        entry_point=row["entry_point"].replace("Solution().", "Solution."),
        references=(f"{given}\n{row['completion']}",),
        difficulty=_DIFFICULTY.get(row["meta"].get("difficulty", ""), 3),
        source="leetcode",
        licence="MIT (statements: LeetCode)",
    )


_MARK = "# What is given is above, the question below."


def _question(problem: Problem) -> str:
    return problem.prompt.partition(f"{_MARK}\n")[2]


def _given(problem: Problem) -> str:
    return problem.prompt.partition(_MARK)[0]


def _start(problem: Problem) -> str:
    """The question as a comment, then the signature that it ends with."""
    question = _question(problem)
    code = _FENCE.findall(question)
    words = question.partition("\nPlease complete the following")[0]
    return f'{_given(problem)}"""\n{words.strip()}\n"""\n\n{code[-1] if code else ""}'


def _join(problem: Problem, completion: str) -> str:
    return _start(problem) + completion


LEETCODE = Benchmark(
    name="leetcode",
    about="LeetCode's newer problems with tests, by LeetCodeDataset (its test split)",
    licence="MIT (statements: LeetCode)",
    editions=(Edition("v0.2.0-test", "4215b161d94ea90c9ed6b1bd6f06239242214a67181bdbc6b6de35be78df9c04", (_HOME,)),),
    fields=("task_id", "prompt", "completion", "entry_point", "test", "query", "meta"),
    read=_read,
    parts=("", *map(str.lower, _DIFFICULTY)),
)
