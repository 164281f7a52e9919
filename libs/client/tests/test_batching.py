"""`ratchet sandbox batch` and SandboxBatches against a sandbox that says what it's told to."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from ratchet.sandbox.v1 import sandbox_pb2 as pb
from ratchet.sandbox.v1 import sandbox_pb2_grpc
from ratchet_client import ApiError, SandboxBatches, Unreachable


class Sandbox(sandbox_pb2_grpc.SandboxServiceServicer):
    """Answers PASSED to each program but those that it was given something else for."""

    def __init__(self) -> None:
        self.created: list[pb.CreateBatchRequest] = []
        self.outcomes: dict[str, pb.BatchItem] = {}
        self.breaks: list[grpc.StatusCode] = []
        self.end = pb.Batch.STATE_SUCCEEDED

    def CreateBatch(self, request: pb.CreateBatchRequest, context: Any) -> pb.CreateBatchResponse:
        if not request.programs:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "programs: holds no program")
        self.created.append(request)
        return pb.CreateBatchResponse(batch=pb.Batch(id="batch_1", programs_total=len(request.programs)))

    def WatchBatch(self, request: pb.WatchBatchRequest, context: Any) -> Iterator[pb.WatchBatchResponse]:
        for index, program in enumerate(self.created[-1].programs):
            item = pb.BatchItem()
            item.CopyFrom(
                self.outcomes.get(program.id, pb.BatchItem(execution=pb.Execution(verdict=pb.VERDICT_PASSED)))
            )
            item.index = index
            if item.WhichOneof("outcome"):
                yield pb.WatchBatchResponse(items=[item])
            if index == 1 and self.breaks:
                context.abort(self.breaks.pop(), "this node has gone")
        yield pb.WatchBatchResponse(batch=pb.Batch(id="batch_1", state=self.end))


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "programs.jsonl"
    lines = [json.dumps({"id": name, "source": f"print('{name}')"}) for name in "abcd"]
    path.write_text("\n".join([*lines, "", ""]))
    return path


def batch(target: str, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ratchet_client.cli.main", "sandbox", "batch", "--target", target, *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)


def test_counts_by_verdict(sandbox: Sandbox, target: str, file: Path) -> None:
    sandbox.outcomes["b"] = pb.BatchItem(execution=pb.Execution(verdict=pb.VERDICT_TIME_LIMIT))
    result = batch(target, str(file), "--priority", "high", "--request-id", "mine")
    assert result.returncode == 0, result.stderr
    assert [line.split() for line in result.stdout.splitlines()][1:] == [["PASSED", "3"], ["TIME_LIMIT", "1"]]
    assert "batch_1: 4 programs" in result.stderr
    [request] = sandbox.created
    assert [program.source for program in request.programs] == [f"print('{name}')" for name in "abcd"]
    assert (request.priority, request.request_id) == (pb.PRIORITY_HIGH, "mine")


def test_results_as_lines(sandbox: Sandbox, target: str, file: Path) -> None:
    sandbox.outcomes["b"] = pb.BatchItem(execution=pb.Execution(verdict=pb.VERDICT_FAILED, stdout="[red]" + "x" * 300))
    result = batch(target, "-", "--jsonl", text=file.read_text())
    assert result.returncode == 0, result.stderr
    told = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(one["id"], one["index"], one["execution"]["verdict"]) for one in told] == [
        ("a", 0, "VERDICT_PASSED"),
        ("b", 1, "VERDICT_FAILED"),
        ("c", 2, "VERDICT_PASSED"),
        ("d", 3, "VERDICT_PASSED"),
    ]
    assert told[1]["execution"]["stdout"] == "[red]" + "x" * 300


def test_what_the_platform_failed_is_a_failure(sandbox: Sandbox, target: str, file: Path) -> None:
    sandbox.outcomes["c"] = pb.BatchItem(platform_error="lane lost (after 5 attempts)")
    result = batch(target, str(file))
    assert result.returncode == 1
    assert "PLATFORM_ERROR" in result.stdout
    assert "1 programs could not be run" in result.stderr


def test_a_batch_that_somebody_cancels_is_a_failure(sandbox: Sandbox, target: str, file: Path) -> None:
    sandbox.outcomes["c"] = pb.BatchItem()
    sandbox.end = pb.Batch.STATE_CANCELLED
    result = batch(target, str(file))
    assert result.returncode == 1
    assert "1 programs have no result" in result.stderr


@pytest.mark.parametrize(
    ("content", "fault"),
    [("{", "line 1"), ('{"id": "a"}\n\n{"sauce": "x"}', "line 3"), ("", "holds no program")],
)
def test_a_bad_file_is_named(content: str, fault: str, target: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(content)
    result = batch(target, str(path))
    assert result.returncode != 0
    assert fault in result.stderr
    assert "Traceback" not in result.stderr


def test_a_watch_outlives_the_node_that_told(sandbox: Sandbox, target: str) -> None:
    sandbox.breaks = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE]
    with SandboxBatches(target) as batches:
        batches.create([pb.Program(id=name) for name in "abcd"])
        replies = list(batches.watch("batch_1"))
    assert [item.index for reply in replies for item in reply.items] == [0, 1, 2, 3]
    assert replies[-1].batch.state == pb.Batch.STATE_SUCCEEDED


def test_refusals_and_silence(sandbox: Sandbox, target: str) -> None:
    with SandboxBatches(target) as batches:
        with pytest.raises(ApiError, match="no program"):
            batches.create([])
        with pytest.raises(ApiError):  # the sandbox of this test has no such method
            batches.cancel("batch_1")
    sandbox.breaks = [grpc.StatusCode.INTERNAL]
    with SandboxBatches(target) as batches, pytest.raises(ApiError, match="gone"):
        batches.create([pb.Program(), pb.Program()])
        list(batches.watch("batch_1"))
    with SandboxBatches("127.0.0.1:1") as batches, pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        batches.get("batch_1")
