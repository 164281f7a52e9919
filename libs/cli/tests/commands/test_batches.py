"""`ratchet sandbox batch` against a scripted sandbox."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from ratchet.common.v1 import priority_pb2, verdict_pb2
from ratchet.sandbox.v1 import batch_pb2 as pb
from ratchet.sandbox.v1 import batch_pb2_grpc, program_pb2
from ratchet_testing.gateway import ScriptedGateway


class Sandbox(batch_pb2_grpc.BatchServiceServicer):
    """Answers PASSED to each program but those that it was given something else for."""

    def __init__(self) -> None:
        self.created: list[pb.CreateBatchRequest] = []
        self.outcomes: dict[str, program_pb2.ExecutionItem] = {}
        self.breaks: list[grpc.StatusCode] = []
        self.end = pb.Batch.STATE_SUCCEEDED

    def add(self, server: grpc.Server) -> None:
        batch_pb2_grpc.add_BatchServiceServicer_to_server(self, server)

    def CreateBatch(self, request: pb.CreateBatchRequest, context: Any) -> pb.CreateBatchResponse:
        if not request.programs:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "programs: holds no program")
        self.created.append(request)
        return pb.CreateBatchResponse(batch=pb.Batch(id="batch_1", programs_total=len(request.programs)))

    def WatchBatch(self, request: pb.WatchBatchRequest, context: Any) -> Iterator[pb.WatchBatchResponse]:
        for index, program in enumerate(self.created[-1].programs):
            item = program_pb2.ExecutionItem()
            item.CopyFrom(
                self.outcomes.get(
                    program.id,
                    program_pb2.ExecutionItem(execution=program_pb2.Execution(verdict=verdict_pb2.VERDICT_PASSED)),
                )
            )
            item.index = index
            if item.WhichOneof("outcome"):
                yield pb.WatchBatchResponse(items=[item])
            if index == 1 and self.breaks:
                context.abort(self.breaks.pop(), "this node has gone")
        yield pb.WatchBatchResponse(batch=pb.Batch(id="batch_1", state=self.end))

    def ListBatches(self, request: pb.ListBatchesRequest, context: Any) -> pb.ListBatchesResponse:
        if request.page_token:
            batch = pb.Batch(id="batch_1", state=pb.Batch.STATE_SUCCEEDED, programs_total=2, programs_done=2)
            return pb.ListBatchesResponse(batches=[batch])
        batch = pb.Batch(id="batch_2", state=pb.Batch.STATE_RUNNING, programs_total=3, programs_done=1)
        return pb.ListBatchesResponse(batches=[batch], next_page_token="next")

    def CancelBatch(self, request: pb.CancelBatchRequest, context: Any) -> pb.CancelBatchResponse:
        return pb.CancelBatchResponse(batch=pb.Batch(id=request.id, state=pb.Batch.STATE_CANCELLED))

    def DeleteBatch(self, request: pb.DeleteBatchRequest, context: Any) -> pb.DeleteBatchResponse:
        if request.id != "batch_1":
            context.abort(grpc.StatusCode.NOT_FOUND, f"there is no {request.id}")
        return pb.DeleteBatchResponse()


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "programs.jsonl"
    lines = [json.dumps({"id": name, "source": f"print('{name}')"}) for name in "abcd"]
    path.write_text("\n".join([*lines, "", ""]))
    return path


@pytest.fixture
def batch(ratchet: Any, target: str) -> Any:
    return lambda *arguments: ratchet("sandbox", "batch", "--target", target, *arguments)


def test_counts_by_verdict(sandbox: Sandbox, batch: Any, file: Path) -> None:
    sandbox.outcomes["b"] = program_pb2.ExecutionItem(
        execution=program_pb2.Execution(verdict=verdict_pb2.VERDICT_TIME_LIMIT)
    )
    result = batch(str(file), "--priority", "high", "--request-id", "mine")
    assert result.returncode == 0, result.stderr
    assert [line.split() for line in result.stdout.splitlines()][1:] == [["PASSED", "3"], ["TIME_LIMIT", "1"]]
    assert "batch_1: 4 programs" in result.stderr
    [request] = sandbox.created
    assert [program.source for program in request.programs] == [f"print('{name}')" for name in "abcd"]
    assert (request.priority, request.request_id) == (priority_pb2.PRIORITY_HIGH, "mine")


def test_results_as_lines(sandbox: Sandbox, batch: Any, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(file.read_text()))
    sandbox.outcomes["b"] = program_pb2.ExecutionItem(
        execution=program_pb2.Execution(verdict=verdict_pb2.VERDICT_FAILED, stdout="[red]" + "x" * 300)
    )
    result = batch("-", "--jsonl")
    assert result.returncode == 0, result.stderr
    told = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(one["id"], one["index"], one["execution"]["verdict"]) for one in told] == [
        ("a", 0, "VERDICT_PASSED"),
        ("b", 1, "VERDICT_FAILED"),
        ("c", 2, "VERDICT_PASSED"),
        ("d", 3, "VERDICT_PASSED"),
    ]
    assert told[1]["execution"]["stdout"] == "[red]" + "x" * 300


def test_what_the_platform_failed_is_a_failure(sandbox: Sandbox, batch: Any, file: Path) -> None:
    sandbox.outcomes["c"] = program_pb2.ExecutionItem(platform_error="lane lost (after 5 attempts)")
    result = batch(str(file))
    assert result.returncode == 1
    assert "PLATFORM_ERROR" in result.stdout
    assert "1 programs could not be run" in result.stderr


def test_a_batch_that_somebody_cancels_is_a_failure(sandbox: Sandbox, batch: Any, file: Path) -> None:
    sandbox.outcomes["c"] = program_pb2.ExecutionItem()
    sandbox.end = pb.Batch.STATE_CANCELLED
    result = batch(str(file))
    assert result.returncode == 1
    assert "1 programs have no result" in result.stderr


@pytest.mark.parametrize(
    ("content", "fault"),
    [("{", "line 1"), ('{"id": "a"}\n\n{"sauce": "x"}', "line 3"), ("", "holds no program")],
)
def test_a_bad_file_is_named(content: str, fault: str, batch: Any, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(content)
    result = batch(str(path))
    assert result.returncode != 0
    assert fault in result.stderr
    assert "Traceback" not in result.stderr


def test_batches_are_listed_cancelled_and_deleted(ratchet: Any, target: str) -> None:
    listed = ratchet("sandbox", "batches", "list", "--target", target)
    assert [line.split()[:3] for line in listed.stdout.splitlines()[1:]] == [
        ["batch_2", "RUNNING", "1/3"],
        ["batch_1", "SUCCEEDED", "2/2"],
    ]
    assert ratchet("sandbox", "batches", "cancel", "batch_2", "--target", target).stdout == "batch_2 CANCELLED\n"
    assert ratchet("sandbox", "batches", "delete", "batch_1", "--target", target).stdout == "batch_1 is deleted.\n"
    unknown = ratchet("sandbox", "batches", "delete", "batch_9", "--target", target)
    assert (unknown.returncode, unknown.stderr) == (3, "ratchet: there is no batch_9\n")


def test_elsewhere_the_gateway_runs_them_one_by_one(
    ratchet: Any, gateway: ScriptedGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_URL", gateway.url)
    monkeypatch.setenv("RATCHET_API_KEY", "rk_mine")
    monkeypatch.delenv("RATCHET_SERVICE_TOKEN")
    file = tmp_path / "programs.jsonl"
    file.write_text('{"id": "a", "source": "1"}\n{"id": "b", "source": "2"}\n')
    gateway.answers({"execution": {"verdict": "VERDICT_PASSED"}}, {"execution": {"verdict": "VERDICT_PASSED"}})
    result = ratchet("sandbox", "batch", str(file))
    assert (result.returncode, result.stdout.split()[-2:]) == (0, ["PASSED", "2"])
    assert sorted(one.body["program"]["id"] for one in gateway.received if one.body) == ["a", "b"]
    assert {(one.path, one.authorization) for one in gateway.received} == {
        ("/api/v1/programs/execute", "Bearer rk_mine")
    }
    gateway.answers({"error": {"code": "UNAVAILABLE", "message": "no node"}}, status=503)
    gateway.answers({"execution": {"verdict": "VERDICT_FAILED"}})
    result = ratchet("sandbox", "batch", str(file), "--jsonl")
    assert (result.returncode, "no node" in result.stdout) == (1, True)
    assert "1 programs could not be run" in result.stderr
    assert ratchet("sandbox", "batch", str(file), "--priority", "low").returncode == 2
