"""Faults that can be read off a problem, and what is left alone."""

import pytest

from ratchet_problems import CallTest, CheckTest, Problem, StdioTest, TestCase, examine


def problem(test: TestCase, entry_point: str = "add", reference: str = "def add(a, b): return a + b") -> Problem:
    return Problem("p", "Add.", (test,), entry_point, (reference,) if reference else ())


@pytest.mark.parametrize(
    "code",
    [
        "def check(candidate):\n    assert candidate(1, 2) == 3",
        "def check(f):\n    assert f(1, 2) == 3",
        "assert add(1, 2) == 3",
        "from solution import Adder\nassert Adder()",
        "import solution\nassert solution",
        "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(add(1, 2), 3)",
        'def examples():\n    """\n    >>> add(1, 2)\n    3\n    """',
        "assert eval('add(1, 2)') == 3",
        "def test_it(candidate): assert candidate(1, 2) == 3",
    ],
)
def test_tests_that_use_the_program_are_fine(code: str) -> None:
    assert examine(problem(CheckTest(code))) == ""


def test_a_check_that_never_calls_the_program_is_at_fault() -> None:
    for code in ("assert True", "def check(candidate):\n    assert 1 + 1 == 2", "def check():\n    assert plus(1, 2)"):
        assert examine(problem(CheckTest(code))) == "tests[0].check: never calls the program"
    assert examine(problem(CheckTest("assert Node(1)", names=("Node",)))) == ""
    assert examine(problem(CheckTest("assert True", shared=True))) == ""  # pasted together: anything may be used


def test_a_check_that_is_no_python_is_at_fault() -> None:
    assert examine(problem(CheckTest("assert add(1, 2 =="))).startswith("tests[0].check: is no Python: ")


@pytest.mark.parametrize(
    ("entry_point", "reference", "fault"),
    [
        ("add", "def plus(a, b): return a + b", "references[0]: does not define add"),
        ("Solution.add", "class Other: ...", "references[0]: does not define Solution"),
        ("add", "def add(a, b) return a + b", "references[0]: is no Python: expected ':' (<unknown>, line 1)"),
        ("add", "def outer():\n    def add(a, b): return a + b", "references[0]: does not define add"),
        ("add", "add = lambda a, b: a + b", ""),
        ("add", "from operator import add", ""),
        ("add", "from operator import *", ""),
        ("add", "if True:\n    def add(a, b): return a + b", ""),
        ("add", "exec('def add(a, b): return a + b')", ""),
        ("Solution.add", "class Solution:\n    def add(self, a, b): return a + b", ""),
        ("add", "", ""),
    ],
)
def test_a_reference_defines_the_entry_point(entry_point: str, reference: str, fault: str) -> None:
    assert examine(problem(CallTest.of([1, 2], 3), entry_point, reference)) == fault


def test_a_script_needs_no_entry_point() -> None:
    assert examine(problem(StdioTest("1 2", "3"), "", "print(sum(map(int, input().split())))")) == ""


def test_references_alone_are_for_sft() -> None:
    bare = Problem("add", "Write add.", (), references=("def add(a, b): ...",))
    assert examine(bare) == "tests: there are none, and only SFT learns from references alone"
