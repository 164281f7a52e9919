"""Splits that keep together what belongs together."""

from collections import Counter

import pytest

from ratchet_kit.errors import InvalidArgument
from ratchet_problems import Problem, StdioTest
from ratchet_problems.splitting import draw, kin


def problem(prompt: str, structure: str = "") -> Problem:
    return Problem(prompt, prompt, (StdioTest("", ""),), structure=structure)


def test_kin_are_of_one_structure_or_one_prompt() -> None:
    assert kin(problem("Add.", "sum")) == kin(problem("Subtract.", "sum"))
    assert kin(problem("Add  it.")) == kin(problem("add it."))
    assert kin(problem("Add.")) != kin(problem("Subtract."))


def test_shares_are_of_problems_and_whole_kins() -> None:
    kins = [f"k{number % 200}" for number in range(1000)]
    drawn = draw(kins, {"validation": 0.1, "test": 0.2}, "train")
    assert Counter(drawn[one] for one in kins) == {"train": 700, "validation": 100, "test": 200}
    assert drawn == draw(reversed(kins), {"validation": 0.1, "test": 0.2}, "train")


@pytest.mark.parametrize("shares", [{"a": 0.0}, {"a": 1.0}, {"a": 0.6, "b": 0.4}, {"a": float("nan")}])
def test_shares_are_parts_of_the_whole(shares: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument, match="above 0, and together below 1"):
        draw(["k1", "k2"], shares, "train")


def test_no_split_is_empty() -> None:
    with pytest.raises(InvalidArgument, match="validation would have no problem: 3 problems of 3 kinds are too few"):
        draw(["k1", "k2", "k3"], {"test": 0.9, "validation": 0.05}, "train")
