"""The difference of two tables; `tests/e2e/test_datasets.py` has the whole."""

from dataclasses import replace
from pathlib import Path

import pytest

from ratchet_problems import Problem, StdioTest, tables
from ratchet_workflows.datasets import Difference, compared

ONE = Problem("one", "Print 1.", (StdioTest("", "1"),))
TWO = Problem("two", "Print 2.", (StdioTest("", "2"),))


def written(path: Path, *problems: Problem) -> Path:
    tables.write(problems, path)
    return path


def test_problems_are_compared_by_id_and_field(tmp_path: Path) -> None:
    before = written(tmp_path / "a", ONE, TWO)
    after = written(tmp_path / "b", replace(TWO, prompt="Print two.", tags=("easy",)), replace(ONE, id="three"), ONE)
    assert compared(before, after) == Difference(["three"], [], {"two": ["prompt", "tags"]}, 1)
    assert compared(after, before).removed == ["three"]


@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True)])
def test_a_split_that_one_lacks_is_all_new_or_all_gone(tmp_path: Path, before: bool, after: bool) -> None:
    table = written(tmp_path / "a", ONE, TWO)
    found = compared(table if before else None, table if after else None)
    assert (len(found.added), len(found.removed), found.same) == (2 * after, 2 * before, 0)
