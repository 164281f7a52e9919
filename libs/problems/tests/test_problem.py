"""The type itself: what it refuses, and its digests."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ratchet_problems import (
    CallTest,
    CheckTest,
    InvalidProblem,
    Message,
    Problem,
    StdioTest,
    UnknownProblemSet,
    data_digest,
    jsonl,
    load,
    tables,
)

ADD = Problem(id="add", prompt="Write add(a, b).", entry_point="add", tests=(CallTest.of([1, 2], 3),))


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"id": " "}, "id"),
        ({"prompt": ""}, "prompt"),
        ({"entry_point": "not a name"}, "entry_point"),
        ({"entry_point": ""}, "entry_point"),
        ({"difficulty": 6}, "difficulty"),
        ({"difficulty": 0}, "difficulty"),
        ({"tests": (CallTest("[1", "2"),)}, "tests[0].args"),
        ({"tests": (CallTest("(1,)", "2"),)}, "tests[0].args"),
        ({"tests": (CallTest.of([1], 1), CallTest("[1]", "open('x')"))}, "tests[1].expected"),
        ({"tests": (CallTest("[1]", "1.0", tolerance=-1),)}, "tests[0].tolerance"),
        ({"tests": (CheckTest(" "),)}, "tests[0].check"),
        ({"prompt": "\ud800"}, "text"),
        ({"conversation": (Message("tool", "3"),)}, "prompt[0].role"),
        ({"conversation": (Message("user", "Hi."), Message("assistant", ""))}, "prompt[1].content"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, object], path: str) -> None:
    with pytest.raises(InvalidProblem) as caught:
        replace(ADD, **change)  # type: ignore[arg-type]
    assert caught.value.path == path


def test_script_problems_need_no_entry_point() -> None:
    assert Problem(id="echo", prompt="Echo.", tests=(StdioTest("1", "1"),)).entry_point == ""


def test_the_digest_is_of_the_content() -> None:
    assert replace(ADD).digest == ADD.digest
    others = [{"prompt": "Add."}, {"tests": (CallTest.of([1, 2], 4),)}, {"references": ("pass",)}, {"difficulty": 2}]
    assert len({ADD.digest, *(replace(ADD, **change).digest for change in others)}) == 5  # type: ignore[arg-type]


def test_a_conversation_is_a_part_of_the_prompt() -> None:
    asked = replace(ADD, conversation=(Message("system", "Be brief."),))
    assert asked.digest != ADD.digest
    assert asked.messages == (Message("system", "Be brief."), Message("user", "Write add(a, b)."))
    assert (asked.shown, ADD.shown) == ("system: Be brief.\n\nuser: Write add(a, b).", "Write add(a, b).")


def test_the_system_of_a_problem_comes_before_one_for_all() -> None:
    own = replace(ADD, conversation=(Message("system", "Be brief."),))
    assert own.under("Be kind.") is own
    assert ADD.under("") is ADD
    assert ADD.under("Be brief.") == own


def test_the_data_digest_ignores_order_and_notices_a_change() -> None:
    other = replace(ADD, id="other")
    assert data_digest([ADD, other]) == data_digest([other, ADD])
    assert data_digest([ADD]) != data_digest([other])
    assert data_digest([ADD]).startswith("sha256:")


def test_literals_keep_tuples_and_number_keys() -> None:
    assert CallTest.of([(1, 2)], {1: {2}}) == CallTest("[(1, 2)]", "{1: {2}}")


@pytest.mark.parametrize("name", ["", "composed", "composed/dev", "humaneval", "basics/"])
def test_an_unknown_set_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(UnknownProblemSet, match="composed/train"):
        load(name)


STDIO, AFTER, APART = StdioTest("1", "1"), CheckTest("main()", shared=True), CheckTest("main()")


@pytest.mark.parametrize(
    ("language", "test", "said"),
    [
        ("go", CallTest("[1]", "1"), r"tests\[0\]: is for Python: a problem in go has tests by stdin"),
        ("go", APART, r"tests\[0\].shared: must be true: a check in go is code that stands after the program"),
        ("Go", STDIO, "language: must be one of python, c, "),
    ],
)
def test_another_language_has_tests_by_stdin_or_after_the_program(language: str, test: Any, said: str) -> None:
    with pytest.raises(InvalidProblem, match=said):
        Problem("p", "Echo.", (test,), language=language)


def test_a_language_is_written_and_read_where_it_is_not_python(tmp_path: Path) -> None:
    problem = Problem("p", "Echo.", (STDIO, AFTER), language="rust")
    jsonl.write([problem], tmp_path / "set.jsonl")
    tables.write([problem], tmp_path / "set.parquet")
    assert jsonl.read(tmp_path / "set.jsonl") == (problem,)
    assert tables.read(tmp_path / "set.parquet", "set") == (problem,)
    assert "language" not in Problem("p", "Echo.", (STDIO,)).to_json()
