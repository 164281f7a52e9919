"""Inputs near those of tests, with what these have in common."""

from collections.abc import Callable
from typing import Any

import pytest

from ratchet_problems.variation import near


@pytest.mark.parametrize(
    ("seeds", "holds"),
    [
        ([[[1, 2, 3], 2], [[4, 5, 9], 3]], lambda items, wanted: items == sorted(items)),
        ([[[3, 1], 2], [[5, 9, 2], 3]], lambda items, size: size == len(items)),
        ([["abc", "a"], ["xyx", "y"]], lambda text, letter: letter in text),
        ([[5, 2], [4, 0]], lambda one, other: one >= 0 and other >= 0),
        ([[[1], ["a"]], [[2, 3], ["b", "c"]]], lambda one, other: len(one) == len(other)),
        ([[[1, 2], "x"], [[7], "y"]], lambda items, text: bool(items and text)),
        ([[{"a": 1}, (1, 2)], [{"b": 2}, (3, 4)]], lambda table, pair: isinstance(table, dict) and len(pair) == 2),
    ],
)
def test_all_seeds_have_it_so_all_inputs_do(seeds: list[list[Any]], holds: Callable[..., bool]) -> None:
    found = near(seeds, 50, 1)
    assert len(found) >= 5
    assert len(set(map(repr, found + seeds))) == len(found) + len(seeds)
    assert all(holds(*given) for given in found), found


def test_what_one_seed_lacks_is_no_rule() -> None:
    found = near([[[1, 2, 3], 2], [[3, 1], -1]], 50, 1)
    assert any(items != sorted(items) for items, _ in found)


def test_the_same_seeds_give_the_same_and_none_give_none() -> None:
    assert near([[1, "a"], [2, "b"]], 20, 7) == near([[1, "a"], [2, "b"]], 20, 7)
    assert near([], 20, 7) == near([[]], 20, 7) == near([[None]], 20, 7) == []
