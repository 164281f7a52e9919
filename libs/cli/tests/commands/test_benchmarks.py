"""`ratchet benchmarks` against a scripted sandbox, in which a program passes that returns x + 1."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from ratchet.common.v1 import problem_pb2, verdict_pb2
from ratchet.sandbox.v1 import program_pb2, program_pb2_grpc
from ratchet_cli.commands import runtimes
from ratchet_local import supervisor
from ratchet_local.home import Home
from ratchet_local.state import PlatformState
from ratchet_problems import CheckTest, jsonl

Grading = problem_pb2.CheckTest


class Sandbox(program_pb2_grpc.ProgramServiceServicer):
    def __init__(self) -> None:
        self.runtimes = ["python"]

    def add(self, server: grpc.Server) -> None:
        program_pb2_grpc.add_ProgramServiceServicer_to_server(self, server)

    def GetCapabilities(self, request: Any, context: Any) -> program_pb2.GetCapabilitiesResponse:
        return program_pb2.GetCapabilitiesResponse(runtimes=[program_pb2.Runtime(name=one) for one in self.runtimes])

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


def test_decimals_without_a_tolerance_are_told(ratchet: Any, target: str, tmp_path: Path) -> None:
    tests = [{"stdin": "1", "expected_stdout": "0.5"}]
    line = {"id": "d", "prompt": "Halve.", "tests": tests, "references": ["print(x + 1)"]}
    (tmp_path / "set.jsonl").write_text(json.dumps(line))
    result = ratchet("benchmarks", "verify", str(tmp_path / "set.jsonl"), "--target", target)
    assert result.returncode == 0, result.stderr
    assert 'only the same digits pass: d. To accept close values set a "tolerance"' in result.stdout
    shown = json.loads(
        ratchet("benchmarks", "verify", str(tmp_path / "set.jsonl"), "--target", target, "--json").stdout
    )
    assert len(shown["notices"]) == 1


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
    found = ratchet("benchmarks", "verify", str(tmp_path / "set.json"), "--target", target, "--kinds")
    assert re.search(r"by the tests' own process +1 +50.0%\nshared +1 +50.0%\nrefused +0 ", found.stdout)
    found = ratchet("benchmarks", "verify", str(tmp_path / "set.json"), "--target", target, "--kinds", "--json")
    assert json.loads(found.stdout)["kinds"] == {"p0": "strict, by the tests' own process", "p1": "shared"}
    assert [test.shared for one in jsonl.read(out) for test in one.tests if isinstance(test, CheckTest)] == [
        False,
        True,
    ]


def test_a_set_that_cannot_be_read_says_so(ratchet: Any, target: str) -> None:
    result = ratchet("benchmarks", "verify", "humanevil", "--target", target)
    assert result.returncode == 2
    assert "no benchmark 'humanevil', and nobody knows whether it is a data set" in result.stderr
    assert ratchet("benchmarks", "verify", "basics", "--target", "127.0.0.1:1").returncode == 4


def test_all_are_listed(ratchet: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path))
    rows = json.loads(ratchet("benchmarks", "list", "--json").stdout)
    assert {"humaneval", "humaneval+", "mbpp", "mbpp+", "composed/test"} <= {row["name"] for row in rows}
    assert "164 Python functions" in ratchet("benchmarks", "list").stdout


@pytest.fixture
def local(tmp_path: Path, target: str, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The scripted sandbox is that of this machine's platform; the runtimes that were built for it."""
    home = Home(tmp_path)
    home.create()
    held = supervisor.lock(home)
    port = int(target.rpartition(":")[2])
    home.write_state(PlatformState(os.getpid(), 0.0, {"sandbox": port, "gateway-http": 1}, ()))
    built: list[str] = []
    monkeypatch.setattr(runtimes, "build", built.append)
    monkeypatch.setattr(runtimes.control, "restart", lambda home, name, timeout_s: sandbox.runtimes.extend(built))
    yield built
    assert held is not None
    os.close(held)


ROW = {
    "task_id": "BigCodeBench/0",
    "complete_prompt": "def f(x):\n",
    "instruct_prompt": "Add one.",
    "canonical_solution": "    return x + 1\n",
    "code_prompt": "def f(x):\n",
    "test": "assert f(1) == 2",
    "entry_point": "f",
    "libs": "[]",
}


def test_a_runtime_is_built_when_it_is_first_needed(
    ratchet: Any, local: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path / "data"))
    absent = ratchet("benchmarks", "verify", "bigcodebench")
    assert (absent.returncode, local) == (1, []), "its data come first"
    assert "ratchet data fetch bigcodebench" in absent.stderr
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROW) + "\n")
    fetched = ratchet("data", "fetch", "bigcodebench", "--from", str(tmp_path / "rows.jsonl"), "--unchecked")
    assert fetched.returncode == 0, fetched.stderr
    for _ in range(2):
        found = ratchet("benchmarks", "verify", "bigcodebench")
        assert "1 of 1 references pass" in found.stdout, found.stderr
    assert local == ["bigcodebench"]
    assert ratchet("benchmarks", "verify", "basics").returncode in (0, 1)
    assert local == ["bigcodebench"], "others need none"


def test_nothing_is_built_for_a_platform_elsewhere(
    ratchet: Any, local: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("RATCHET_API_KEY", "key")
    assert ratchet("evaluate", "--model", "m@1", "--benchmark", "bigcodebench").returncode == 4
    assert local == []


@pytest.mark.parametrize(
    "command",
    [
        ["evaluate", "--model", "m@1", "--benchmark", "humaneval=0.5", "--benchmark", "bigcodebench-hard=0.5"],
        ["gate", "--model", "m@1", "--benchmark", "humaneval", "--guard", "bigcodebench-hard:0.02"],
        ["matrix", "--model", "m@1", "--benchmark", "bigcodebench-hard"],
        ["train", "--model", "m@1", "--validation", "bigcodebench-hard"],
    ],
)
def test_every_command_that_measures_builds_what_it_needs(
    ratchet: Any, local: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setattr("ratchet_benchmarks.require", lambda name: None)
    said = ratchet(*command)
    assert local == ["bigcodebench"], said.stderr
