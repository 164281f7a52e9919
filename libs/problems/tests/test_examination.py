"""Faults that can be read off a problem, and what is left alone."""

from dataclasses import replace

import pytest

from ratchet_problems import CallTest, CheckTest, Problem, StdioTest, TestCase, examine, notices


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
    assert examine(problem(CheckTest("assert add(1, 2 =="))).startswith("tests[0].check: is not valid Python: ")


@pytest.mark.parametrize(
    ("entry_point", "reference", "fault"),
    [
        ("add", "def plus(a, b): return a + b", "references[0]: does not define add"),
        ("Solution.add", "class Other: ...", "references[0]: does not define Solution"),
        ("add", "def add(a, b) return a + b", "references[0]: is not valid Python: expected ':' (<unknown>, line 1)"),
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
    assert examine(bare) == "tests: missing; only SFT learns from references alone"


@pytest.mark.parametrize(
    ("expected", "tolerance", "is_noticed"),
    [
        ("0.333", None, True),
        ("yes\n2 1e-3", None, True),
        ("-.5", None, True),
        ("0.333", 1e-6, False),
        ("0.333", 0.0, False),  # who states it knows
        ("3 -4", None, False),
        ("e . 1.2.3 v1.0 12:30.5", None, False),
    ],
)
def test_decimals_without_a_tolerance_are_noticed(expected: str, tolerance: float | None, is_noticed: bool) -> None:
    found = notices([problem(StdioTest("", expected, tolerance=tolerance))])
    assert [one.partition(". ")[0] for one in found] == [
        "tests expect decimals on standard output, and only the same digits pass: p"
    ] * is_noticed


def test_a_notice_names_a_few() -> None:
    many = [replace(problem(StdioTest("", "0.5")), id=f"p{number}") for number in range(7)]
    (notice,) = notices([*many, problem(CallTest("[1, 2]", "0.5"))])
    assert "pass: p0, p1, p2, p3, p4 and 2 more. " in notice
