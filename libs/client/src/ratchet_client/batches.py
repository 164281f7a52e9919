"""Stored batches of a sandbox: programs that are run whatever becomes of the caller, or of one node. Over gRPC."""

import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

import grpc

from ratchet.sandbox.v1 import sandbox_pb2 as pb
from ratchet.sandbox.v1 import sandbox_pb2_grpc
from ratchet_client.errors import ApiError, Unreachable

TIMEOUT_S = 60.0
PATIENCE_S = 60.0
_PAUSE_S = 0.5
_MAX_MESSAGE_BYTES = 64 << 20
_OPTIONS = [
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
]


class SandboxBatches:
    """Batches at the sandbox `target`, "host:port" or any target of gRPC. Use it as a context manager, or close() it.

    Every method raises ApiError when the sandbox refuses and Unreachable when none answers.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._channel = grpc.insecure_channel(target, options=_OPTIONS)
        self._stub = sandbox_pb2_grpc.SandboxServiceStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    def create(
        self,
        programs: Sequence[pb.Program],
        priority: pb.Priority.ValueType = pb.PRIORITY_NORMAL,
        request_id: str = "",
    ) -> pb.Batch:
        """Returns at once. With a request_id of the caller's own it can be sent again, and makes one batch."""
        request = pb.CreateBatchRequest(programs=programs, priority=priority, request_id=request_id)
        try:
            return self._stub.CreateBatch(request, timeout=TIMEOUT_S).batch
        except grpc.RpcError as error:
            raise self._translated(error) from error

    def get(self, id: str) -> pb.Batch:
        try:
            return self._stub.GetBatch(pb.GetBatchRequest(id=id), timeout=TIMEOUT_S).batch
        except grpc.RpcError as error:
            raise self._translated(error) from error

    def cancel(self, id: str) -> pb.Batch:
        try:
            return self._stub.CancelBatch(pb.CancelBatchRequest(id=id), timeout=TIMEOUT_S).batch
        except grpc.RpcError as error:
            raise self._translated(error) from error

    def watch(self, id: str) -> Iterator[pb.WatchBatchResponse]:
        """Every item once, as they come, until the batch has ended; from another node if the one that told has gone.

        Raises Unreachable when none has answered for a minute.
        """
        seen: set[int] = set()
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                for reply in self._stub.WatchBatch(pb.WatchBatchRequest(id=id)):
                    until = time.monotonic() + PATIENCE_S
                    new = [item for item in reply.items if item.index not in seen]
                    seen.update(item.index for item in new)
                    yield pb.WatchBatchResponse(batch=reply.batch, items=new)
                return
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:  # the server's bound on a stream: it lives
                    continue
                if error.code() is not grpc.StatusCode.UNAVAILABLE or time.monotonic() > until:
                    raise self._translated(error) from error
            time.sleep(_PAUSE_S)

    def _translated(self, error: grpc.RpcError) -> ApiError | Unreachable:
        code, text = error.code(), error.details() or ""
        if code is grpc.StatusCode.UNAVAILABLE:
            return Unreachable(f"The sandbox at {self._target} can't do this now: {text}")
        return ApiError(0, code.name, text)
