"""What each component says of programs, as docs/quality.md defines it."""

import pytest

from ratchet_problems import Problem, StdioTest
from ratchet_quality import Unreadable
from ratchet_quality.components import component
from ratchet_quality.tokens import significant

PLAIN = "def f(xs):\n    return sum(xs)\n"


def problem(*references: str) -> Problem:
    return Problem("p", "Sum xs.", (StdioTest("", ""),), references=references)


def branches(count: int) -> str:
    return "def f(x):\n" + "".join(f"    if x == {i}:\n        return {i}\n" for i in range(count)) + "    return x\n"


def test_style_is_one_minus_findings_per_line_of_code() -> None:
    style = component("style")
    assert style(PLAIN, problem()).value == 1.0
    found = style("import os  # noqa\n\n# a comment\ndef f(l):\n    '''Says.'''\n    return l\n", problem())
    # of three lines with code, F401 and E741
    assert found.value == pytest.approx(1 / 3)
    assert "F401" in found.detail
    assert style("import os, sys\n", problem()).value == 0.0


def test_the_problems_own_lines_are_not_the_programs_style() -> None:
    prompt = 'import os\n\n\ndef f(l):\n    """Says."""\n'
    given = Problem("p", prompt, (StdioTest("", ""),))
    assert component("style")(prompt + "    return 1\n", given).value == 1.0
    assert component("style")(prompt + "    x = l;\n    return 1\n", given).value == 0.0


def test_complexity_is_allowed_up_to_the_reference_or_what_is_simple() -> None:
    complexity = component("complexity")
    assert complexity(branches(4), problem(PLAIN)).value == 1.0
    assert complexity(branches(9), problem(PLAIN)).value == 0.5
    assert complexity(branches(9), problem(branches(9))).value == 1.0
    # neither in a method nor at the top level is it hidden
    method = "class A:\n" + "".join(f"    {line}\n" for line in branches(9).splitlines())
    top = "x = 1\n" + "".join(f"if x == {i}:\n    x = 0\n" for i in range(9))
    assert complexity(method, problem(PLAIN)).value == 0.5
    assert complexity(top, problem(PLAIN)).value == 0.5


@pytest.mark.parametrize(
    ("source", "value"),
    [
        (PLAIN, 1.0),
        ("import random\nassert random.random() < 2\n", 1.0),
        ("def f(x):\n    try:\n        return x[0]\n    except Exception:\n        pass\n", 2 / 3),
        ("def f(x):\n    return eval(x)\n", 1 / 3),
        ("import subprocess\ndef f(x):\n    return subprocess.run(x, shell=True)  # nosec\n", 0.0),
    ],
)
def test_safety_is_by_the_worst_that_is_found(source: str, value: float) -> None:
    assert component("safety")(source, problem()).value == pytest.approx(value)
    assert component("safety")(source + PLAIN * 50, problem()).value == pytest.approx(value)


def test_length_is_tokens_against_the_references() -> None:
    length = component("length")
    twenty = "x = 1\n" * 6 + "x\nx\n"
    assert length(twenty, problem(PLAIN)).value == 1.0
    assert length(twenty * 2, problem(PLAIN)).value == 0.5
    assert length(twenty * 2, problem(twenty * 2)).value == 1.0
    assert length(twenty * 20, problem()).value == 0.5
    commented = '"""A module."""\n' + "\n".join(f"x = 1  # {i}" for i in range(6))
    assert length(commented, problem(PLAIN)).detail == "18 tokens; 20 are allowed"


def test_docstrings_and_layout_are_no_tokens() -> None:
    source = 'def f():\n    """Says."""\n    return "text"\n'
    words = [token.string for token in significant(source) if token.string.strip()]
    assert words == ["def", "f", "(", ")", ":", "return", '"text"']
    with pytest.raises(Unreadable):
        significant("f(")


@pytest.mark.parametrize("name", ["style", "complexity", "safety"])
def test_what_is_no_python_is_not_read(name: str) -> None:
    with pytest.raises(Unreadable):
        component(name)("def f(:\n", problem())


def test_what_is_allowed_may_be_given() -> None:
    assert component("length")("x = 1\n" * 20, problem(PLAIN), tokens=30).value == 0.5
    assert component("complexity")(branches(9), problem(branches(9)), allowed=5).value == 0.5


def test_similarity_is_of_the_runs_of_tokens_of_the_most_alike_reference() -> None:
    similarity = component("similarity")
    assert similarity(PLAIN, problem("x = 1\n", PLAIN)).value == 1.0
    assert similarity("# its own words\n" + PLAIN, problem(PLAIN)).value == 1.0
    # 1 of 2 tokens, no pair: (1/2 + 0) / 2
    assert similarity("a\nb\n", problem("a\nc\n")).value == 0.25
    assert similarity("a\n", problem("b = 1\n")).value == 0.0
    with pytest.raises(Unreadable, match="no reference"):
        similarity(PLAIN, problem())
