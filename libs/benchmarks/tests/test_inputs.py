"""MBPP+'s arguments get the types that JSON cannot hold."""

from typing import Any

import pytest

from ratchet_benchmarks.evalplus import inputs


@pytest.mark.parametrize(
    ("task", "given", "read"),
    [
        ("HumanEval/2", [[1]], [[1]]),
        ("Mbpp/2", [[1], [2]], [(1,), (2,)]),
        ("Mbpp/63", [[[1, 2]]], [[(1, 2)]]),
        ("Mbpp/75", [[[1, 2]], 5], [[(1, 2)], 5]),
        ("Mbpp/106", [[1], [2]], [[1], (2,)]),
        ("Mbpp/115", [[[1], [], "x"]], [[{1}, {}, {}]]),
        ("Mbpp/124", ["1.5", "2j"], [1.5, 2j]),
        ("Mbpp/252", ["(1+2j)"], [1 + 2j]),
        ("Mbpp/259", [[[1], [2]], [[3]]], [((1,), (2,)), ((3,),)]),
        ("Mbpp/278", [[1, [2]]], [(1, (2,))]),
        ("Mbpp/307", [[1], 2, 3], [(1,), 2, 3]),
        ("Mbpp/580", [[1, [2, [3]]]], [(1, (2, (3,)))]),
        ("Mbpp/722", [{"a": [1]}, 2], [{"a": (1,)}, 2]),
        ("Mbpp/6", [[1], 2], [[1], 2]),
    ],
)
def test_arguments(task: str, given: list[Any], read: list[Any]) -> None:
    (found,) = inputs.read(task, [given])
    assert repr(found) == repr(read)
