"""Rows of public benchmarks and completions: what they come to, or why they are refused."""

import base64
import json
import pickle
import time
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet_kit.errors import InvalidArgument, Unimplemented
from ratchet_problems.problem import CheckTest
from sandbox_service.fusion.rows import READERS, Options, Row, Work, lines_match
from sandbox_service.fusion.rows.completions import extract, extract_first
from sandbox_service.fusion.rows.human_eval import evo_eval, human_eval
from sandbox_service.fusion.rows.live_code_bench import live_code_bench
from sandbox_service.fusion.rows.mbpp import mbpp

ANSWER = "First:\n```\nplain\n```\nthen\n```python\na = 1\n```\nand\n```py\na = 2\n```"


@pytest.mark.parametrize(
    ("completion", "language", "code"),
    [
        (ANSWER, "python", "a = 1"),
        (ANSWER, "cpp", "plain"),
        ("```c++\nint x;\n```", "cpp", "int x;"),
        ("```js\n1\n```", "nodejs", "1"),
        ("```python\n```", "python", ""),
        ("So:\n```python\na = 1\nb = 2", "python", "a = 1\nb = 2"),
        (
            "Take this:\nimport math\ndef f():\n\n    return 1\nIt works.",
            "python",
            "import math\ndef f():\n\n    return 1\n",
        ),
        ("no code at all", "python", ""),
        ("", "python", ""),
    ],
)
def test_the_first_fitting_block(completion: str, language: str, code: str) -> None:
    assert extract(completion, language) == code


def test_what_follows_the_program_is_left_out() -> None:
    code = 'def f(): pass\nif __name__ == "__main__":\n    f()'
    assert extract_first(f"```python\n{code}\n```", "python") == "def f(): pass"
    assert extract_first("```\ng = 1\n\n# Example usage\nprint(g)\n```", "python") == "g = 1"


@pytest.mark.parametrize(
    "unit", ["\n", "```", "```a\n", "x```a\n", "#a\n", "import a\n", "def f\n", " \n", "\n ", "def f():\n a\n"]
)
def test_extraction_takes_time_in_proportion(unit: str) -> None:
    text = unit * (300_000 // len(unit))
    started = time.process_time()
    extract(text, "python")
    extract_first(text, "python")
    assert time.process_time() - started < 3


@pytest.mark.parametrize(
    ("got", "expected", "same"),
    [
        ("3\n", "3", True),
        ("YES\n", "yes", True),
        (" a \nb", "a\nb  \n", True),
        ("a b", "a  b", False),
        ("0.333333", "0.3333334", True),
        ("0.3333", "0.3334", False),
        ("1", "1\n2", False),
        ("nan", "1", False),
        ("nan", "nan", True),
        ("inf", "1", False),
        ("0", "0.0", True),
    ],
)
def test_printed_lines(got: str, expected: str, same: bool) -> None:
    assert lines_match(got, expected) is same


def code_of(work: Work) -> str:
    (test,) = work.tests
    assert isinstance(test, CheckTest)
    return test.code


def test_mbpp_asserts_name_their_function() -> None:
    row = Row({"labels": {}, "test_list": ["assert set(similar((1, 2), (2, 3))) == {2}"]}, "row")
    work = mbpp(row, "```python\ndef similar(a, b): return a\n```", Options())
    assert work.entry_point == "similar"
    assert code_of(work).strip() == "assert set(similar((1, 2), (2, 3))) == {2}"


def test_tests_get_the_modules_they_use_and_no_name_of_the_program() -> None:
    row = Row(
        {"test": "def check(f):\n    assert math.pi and copy.x", "entry_point": "copy", "prompt": "def copy():\n"},
        "row",
    )
    work = human_eval(row, "    return 1", Options())
    assert code_of(work).startswith("import math\ndef check")


def test_older_tables_hold_the_prompt_as_content() -> None:
    row = Row(
        {"content": "```python\ndef f():\n", "test": "def check(f): pass", "labels": '{"entry_point": "f"}'}, "row"
    )
    work = evo_eval(row, "    return 1\n```\nDone.", Options())
    assert (work.entry_point, work.source.endswith("def f():\n\n    return 1")) == ("f", True)


@pytest.mark.parametrize(
    ("setup", "tests", "names"),
    [
        ("", ["assert f([Pair(1, 2)]) == 3"], ("Pair",)),
        ("root = Node(1)\nroot.left = Node(2)", ["assert f(root)"], ("Node",)),
        ("", ["assert close(f(1), 2)", "assert f(Pair(1)) == Pair(2)"], ()),
        ("", ["got = f(1)\nok = close(got, 2)\nassert ok"], ()),
        ("", ["assert math.isclose(f(1), 2) and Counter(f(2)) == Counter([1])"], ()),
    ],
)
def test_what_is_handed_to_the_function_may_be_the_programs_and_nothing_that_decides(
    setup: str, tests: list[str], names: tuple[str, ...]
) -> None:
    work = mbpp(Row({"labels": {"test_setup_code": setup}, "test_list": tests}, "row"), "def f(x): return 0", Options())
    (test,) = work.tests
    assert isinstance(test, CheckTest)
    assert test.names == names


def test_the_prompts_helpers_and_the_library_are_the_tests_own() -> None:
    prompt = "def poly(xs, x):\n    return 0\n\ndef f(xs):\n"
    test = "def check(candidate):\n    assert abs(poly([1], candidate([1]))) < Counter([1])[1]\n"
    work = human_eval(Row({"prompt": prompt, "test": test, "entry_point": "f"}, "row"), "    return 1", Options())
    assert "from collections import Counter\ndef poly" in code_of(work)


class Evil:
    def __reduce__(self) -> Any:
        return exit, (3,)


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"input_output": json.dumps({"inputs": ["1\n"], "outputs": ["2\n"]})}, ""),
        (json.dumps({"input_output": {"inputs": ["1\n"], "outputs": ["2\n"]}}), ""),
        (Evil(), "packed test"),
        ("x", "packed test"),
        ([1], "no object"),
        ({"input_output": "x" * (65 << 20)}, "packed test|MiB"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_packed_tests_are_read_and_never_run(value: Any, fault: str) -> None:
    packed = base64.b64encode(zlib.compress(pickle.dumps(value))).decode()
    row = Row({"test": packed}, "row")
    if fault:
        with pytest.raises(InvalidArgument, match=fault):
            live_code_bench(row, "```python\n1\n```", Options())
    else:
        work = live_code_bench(row, "```python\n1\n```", Options())
        assert [(case.stdin, case.expected) for case in work.cases] == [("1\n", "2\n")]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ["prompt", "test", "entry_point", "labels", "test_list", "content", "tests", "input_output"]
ROWS = st.dictionaries(
    st.sampled_from(FIELDS),
    JSON
    | st.fixed_dictionaries(
        {},
        optional={
            "programming_language": st.just("python") | JSON,
            "test_setup_code": JSON,
            "code": JSON,
            "input_output": JSON | st.fixed_dictionaries({"inputs": JSON, "outputs": JSON}, optional={"fn_name": JSON}),
        },
    )
    | st.lists(st.fixed_dictionaries({"input": JSON, "output": JSON}), max_size=2),
)


@given(st.sampled_from(sorted(READERS)), ROWS, st.text(), st.booleans())
def test_any_row_is_read_or_refused(name: str, row: dict[str, Any], completion: str, freeform: bool) -> None:
    options = Options(language="python", is_freeform=freeform)
    try:
        work = READERS[name](Row(row, "row"), completion, options)
    except (InvalidArgument, Unimplemented):
        return
    for text in (work.source, work.entry_point, work.test_code, *map(repr, work.tests)):
        text.encode()
    by_exit_status = work.forgeable and not work.tests
    assert [bool(work.cases), bool(work.tests), by_exit_status].count(True) == 1
