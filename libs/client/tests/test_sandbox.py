"""SandboxBatches against a scripted sandbox, over gRPC."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import batch_pb2 as pb
from ratchet.sandbox.v1 import batch_pb2_grpc, program_pb2
from ratchet_client import ApiError, SandboxBatches, Unreachable


class Sandbox(batch_pb2_grpc.BatchServiceServicer):
    """Answers PASSED to each program; a watch breaks after the second item while `breaks` holds a code."""

    def __init__(self) -> None:
        self.created: list[pb.CreateBatchRequest] = []
        self.breaks: list[grpc.StatusCode] = []

    def CreateBatch(self, request: pb.CreateBatchRequest, context: Any) -> pb.CreateBatchResponse:
        if not request.programs:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "programs: holds no program")
        self.created.append(request)
        return pb.CreateBatchResponse(batch=pb.Batch(id="batch_1", programs_total=len(request.programs)))

    def WatchBatch(self, request: pb.WatchBatchRequest, context: Any) -> Iterator[pb.WatchBatchResponse]:
        for index, _ in enumerate(self.created[-1].programs):
            item = program_pb2.ExecutionItem(
                index=index, execution=program_pb2.Execution(verdict=verdict_pb2.VERDICT_PASSED)
            )
            yield pb.WatchBatchResponse(items=[item])
            if index == 1 and self.breaks:
                context.abort(self.breaks.pop(), "this node has gone")
        yield pb.WatchBatchResponse(batch=pb.Batch(id="batch_1", state=pb.Batch.STATE_SUCCEEDED))


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox()


@pytest.fixture
def target(sandbox: Sandbox) -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(2))
    batch_pb2_grpc.add_BatchServiceServicer_to_server(sandbox, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(0).wait()


def test_a_watch_outlives_the_node_that_told(sandbox: Sandbox, target: str) -> None:
    sandbox.breaks = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE]
    with SandboxBatches(target) as batches:
        batches.create([program_pb2.Program(id=name) for name in "abcd"])
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
        batches.create([program_pb2.Program(), program_pb2.Program()])
        list(batches.watch("batch_1"))
    with SandboxBatches("127.0.0.1:1") as batches, pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        batches.get("batch_1")
