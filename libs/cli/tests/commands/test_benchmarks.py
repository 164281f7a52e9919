"""`ratchet benchmarks` against a scripted sandbox, in which a program passes that returns x + 1."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from ratchet.common.v1 import problem_pb2, verdict_pb2
from ratchet.sandbox.v1 import program_pb2, program_pb2_grpc
from ratchet_problems import CheckTest, jsonl

Grading = problem_pb2.CheckTest


class Sandbox(program_pb2_grpc.ProgramServiceServicer):
    def add(self, server: grpc.Server) -> None:
        program_pb2_grpc.add_ProgramServiceServicer_to_server(self, server)

    def GetCapabilities(self, request: Any, context: Any) -> program_pb2.GetCapabilitiesResponse:
        return program_pb2.GetCapabilitiesResponse()

    def StreamExecute(self, requests: Any, context: Any) -> Iterator[program_pb2.StreamExecuteResponse]:
        for request in requests:
            for index, program in enumerate(request.programs):
                shares = all(test.check.grading == Grading.GRADING_SHARED for test in program.tests)
                apart = any("shares()" in test.check.code for test in program.tests) and not shares
                right = "x + 1" in program.source and not apart
                verdict = verdict_pb2.VERDICT_PASSED if right else verdict_pb2.VERDICT_FAILED
                execution = program_pb2.Execution(id=program.id, verdict=verdict, detail="" if right else "3 is not 2")
                item = program_pb2.ExecutionItem(execution=execution, index=index)
                yield program_pb2.StreamExecuteResponse(items=[item])


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox()


@pytest.fixture
def verify(ratchet: Any, target: str, tmp_path: Path) -> Any:
    def run(*sources: str, options: tuple[str, ...] = ()) -> Any:
        tests = [{"args": [1], "expected": 2}]
        records = [
            {"id": f"p{i}", "prompt": "Add one.", "entry_point": "f", "tests": tests, "references": [source]}
            for i, source in enumerate(sources)
        ]
        (tmp_path / "set.json").write_text(json.dumps(records))
        return ratchet("benchmarks", "verify", str(tmp_path / "set.json"), "--target", target, *options)

    return run


def test_all_references_pass(verify: Any) -> None:
    result = verify("f = lambda x: x + 1", "f = lambda x: 0 + x + 1")
    assert result.returncode == 0
    assert result.stdout.endswith("2 of 2 references pass.\n")


def test_what_fails_is_listed_with_its_reason(verify: Any) -> None:
    result = verify("f = lambda x: x + 1", "f = lambda x: x + 2")
    assert result.returncode == 1
    assert "3 is not 2" in result.stdout
    assert "1 of 2 references pass" in result.stdout
    found = json.loads(verify("f = lambda x: x + 2", options=("--json",)).stdout)
    assert list(found["unsound"]) == ["p0"]


def test_what_must_share_its_process_is_listed_and_written_so(ratchet: Any, target: str, tmp_path: Path) -> None:
    records = [
        {"id": f"p{i}", "prompt": "Add one.", "entry_point": "f", "tests": [{"check": code}], "references": ["x + 1"]}
        for i, code in enumerate(["assert f(1) == 2", "assert f(1).shares()"])
    ]
    (tmp_path / "set.json").write_text(json.dumps(records))
    out = tmp_path / "checked.jsonl"
    result = ratchet("benchmarks", "verify", str(tmp_path / "set.json"), "--target", target, "--out", str(out))
    assert result.returncode == 0, result.stderr
    assert "FAILED 3 is not 2" in result.stdout
    assert "2 of 2 references pass, 1 of them in the shared kind" in result.stdout
    assert [test.shared for one in jsonl.read(out) for test in one.tests if isinstance(test, CheckTest)] == [
        False,
        True,
    ]


def test_a_set_that_cannot_be_read_says_so(ratchet: Any, target: str) -> None:
    result = ratchet("benchmarks", "verify", "humanevil", "--target", target)
    assert result.returncode == 1
    assert "no benchmark 'humanevil'" in result.stderr
    assert ratchet("benchmarks", "verify", "basics", "--target", "127.0.0.1:1").returncode == 4


def test_all_are_listed(ratchet: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path))
    rows = json.loads(ratchet("benchmarks", "list", "--json").stdout)
    assert {"humaneval", "humaneval+", "mbpp", "mbpp+", "composed/test"} <= {row["name"] for row in rows}
    assert "164 Python functions" in ratchet("benchmarks", "list").stdout
