"""SandboxFusion's data sets and rules, without a sandbox."""

import base64
import json
import pickle
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.sandbox.v1 import sandbox_pb2 as pb
from ratchet_kit.errors import FailedPrecondition, InvalidArgument, NotFound, RatchetError, Unimplemented
from sandbox_service.fusion import datasets
from sandbox_service.fusion.datasets import CLASSES, Row, lines_match, reader
from sandbox_service.fusion.extraction import extract, extract_first
from sandbox_service.fusion.rows import RowFolder
from sandbox_service.fusion.running import response
from sandbox_service.fusion.shapes import TestConfig

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
            "import math\ndef f():\n    return 1\n",
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


def test_mbpp_asserts_name_their_function() -> None:
    row = Row({"labels": {}, "test_list": ["assert set(similar((1, 2), (2, 3))) == {2}"]}, "row")
    work = CLASSES["MBPPDataset"](row, "```python\ndef similar(a, b): return a\n```", TestConfig())
    assert work.program.entry_point == "similar"
    assert work.program.tests[0].check.code.strip() == "assert set(similar((1, 2), (2, 3))) == {2}"


def test_tests_get_the_modules_they_use_and_no_name_of_the_program() -> None:
    row = Row(
        {"test": "def check(f):\n    assert math.pi and copy.x", "entry_point": "copy", "prompt": "def copy():\n"},
        "row",
    )
    work = CLASSES["HumanEvalDataset"](row, "    return 1", TestConfig())
    assert work.program.tests[0].check.code.startswith("import math\ndef check")


def test_the_class_of_a_data_set() -> None:
    assert reader("mbpp", None) is datasets.mbpp
    assert reader("of my own", "CommonOJDataset") is datasets.common_oj
    with pytest.raises(InvalidArgument, match="dataset_type"):
        reader("of my own", None)
    with pytest.raises(Unimplemented, match="CruxEvalDataset"):
        reader("of my own", "CruxEvalDataset")


def test_older_tables_hold_the_prompt_as_content() -> None:
    row = Row(
        {"content": "```python\ndef f():\n", "test": "def check(f): pass", "labels": '{"entry_point": "f"}'}, "row"
    )
    work = CLASSES["EvoEvalDataset"](row, "    return 1\n```\nDone.", TestConfig())
    assert (work.program.entry_point, work.program.source.endswith("def f():\n\n    return 1")) == ("f", True)


def test_test_code_that_tests_nothing_is_refused() -> None:
    tests = "import unittest\nclass TestF(unittest.TestCase):\n    def test(self):\n        assert False\n"
    with pytest.raises(Unimplemented, match="neither defines check"):
        CLASSES["HumanEvalDataset"](Row({"prompt": "", "test": tests, "entry_point": "f"}, "row"), "", TestConfig())
    with pytest.raises(Unimplemented, match="patch"):
        reader("bigcodebench", None)


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
            CLASSES["LiveCodeBenchDataset"](row, "```python\n1\n```", TestConfig())
    else:
        work = CLASSES["LiveCodeBenchDataset"](row, "```python\n1\n```", TestConfig())
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


@given(st.sampled_from(sorted(CLASSES)), ROWS, st.text(), st.booleans())
def test_any_row_is_read_or_refused(name: str, row: dict[str, Any], completion: str, freeform: bool) -> None:
    config = TestConfig(language="python", extra={"is_freeform": freeform})
    try:
        work = CLASSES[name](Row(row, "row"), completion, config)
    except (InvalidArgument, Unimplemented):
        return
    work.program.SerializeToString()
    assert bool(work.cases) != bool(work.program.tests)


def test_rows_of_a_folder(tmp_path: Path) -> None:
    folder = RowFolder(tmp_path)
    (tmp_path / "mine.jsonl").write_text('{"id": 1, "a": "\u2028"}\n\n{"task_id": "x/2"}\n')
    assert folder.names() == ["mine"]
    assert folder.row("mine", 1) == folder.row("mine", "1") == {"id": 1, "a": "\u2028"}
    assert folder.row("mine", "x/2") == {"task_id": "x/2"}
    (tmp_path / "mine.jsonl").write_text('{"id": 2}\n' + " " * 99)
    assert folder.row("mine", 2) == {"id": 2}
    (tmp_path / "broken.jsonl").write_text('{"id": 1}\n[]\n')
    faults: list[tuple[RowFolder, str, type[RatchetError], str]] = [
        (folder, "mine", NotFound, "no row"),
        (folder, "other", NotFound, "holds no other.jsonl: it holds broken, mine"),
        (folder, "../mine", NotFound, "holds no"),
        (folder, "broken", InvalidArgument, "line 2"),
        (RowFolder(None), "mine", FailedPrecondition, "RATCHET_SANDBOX_DATASETS_DIR"),
    ]
    for where, name, kind, text in faults:
        with pytest.raises(kind, match=text):
            where.row(name, 7)


def test_a_verdict_without_a_word_of_its_own_is_told() -> None:
    execution = pb.Execution(verdict=pb.VERDICT_TAMPERED, detail="unasked bytes", exit_status=0)
    answer = json.loads(response(execution).model_dump_json())
    assert (answer["status"], answer["message"]) == ("Failed", "tampered: unasked bytes")
    assert (answer["run_result"]["status"], answer["run_result"]["return_code"]) == ("Finished", 1)
