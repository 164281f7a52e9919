"""Stored batches of a sandbox: programs that are run whatever becomes of the caller, or of one node. Over gRPC."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import grpc

from ratchet.common.v1 import priority_pb2
from ratchet.sandbox.v1 import batch_pb2 as pb
from ratchet.sandbox.v1 import batch_pb2_grpc, program_pb2
from ratchet_client import access
from ratchet_client.calls import PAGE_SIZE, new_request_id
from ratchet_client.errors import ApiError, Unreachable
from ratchet_protos.access import with_token

TIMEOUT_S = 60.0
SILENCE_S = 60.0
_PAUSE_S = 0.5
_MAX_MESSAGE_BYTES = 64 << 20
_OPTIONS = [
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
]


class SandboxBatches:
    """Batches at the sandbox `target`, "host:port" or any target of gRPC. Use it as a context manager, or close() it.

    Those of one caller: `caller` names it, from whatever address it calls; unset, it is the address.
    Every method raises ApiError when the sandbox refuses and Unreachable when none answers.
    """

    def __init__(self, target: str, caller: str = "", token: str = "") -> None:
        """`token`: of the services; without it see `access.service_token`, which raises Unreachable."""
        self._target = target
        self._caller = caller
        self._channel = grpc.insecure_channel(target, options=_OPTIONS)
        self._stub = batch_pb2_grpc.BatchServiceStub(with_token(self._channel, token or access.service_token()))

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
        programs: Sequence[program_pb2.Program],
        priority: priority_pb2.Priority.ValueType = priority_pb2.PRIORITY_NORMAL,
        request_id: str = "",
    ) -> pb.Batch:
        """Returns at once. Sent again under its request_id, it gives the same batch."""
        request_id = request_id or new_request_id()
        request = pb.CreateBatchRequest(
            programs=programs, priority=priority, request_id=request_id, caller=self._caller
        )
        with self._translated():
            return self._stub.CreateBatch(request, timeout=TIMEOUT_S).batch

    def get(self, id: str) -> pb.Batch:
        with self._translated():
            return self._stub.GetBatch(pb.GetBatchRequest(id=id, caller=self._caller), timeout=TIMEOUT_S).batch

    def list(self) -> Iterator[pb.Batch]:
        """The newest first."""
        request = pb.ListBatchesRequest(page_size=PAGE_SIZE, caller=self._caller)
        while True:
            with self._translated():
                page = self._stub.ListBatches(request, timeout=TIMEOUT_S)
            yield from page.batches
            request.page_token = page.next_page_token
            if not page.next_page_token:
                return

    def cancel(self, id: str) -> pb.Batch:
        """Ends a batch; recorded executions stay."""
        with self._translated():
            return self._stub.CancelBatch(pb.CancelBatchRequest(id=id, caller=self._caller), timeout=TIMEOUT_S).batch

    def delete(self, id: str) -> None:
        """A batch that has ended, with its items."""
        with self._translated():
            self._stub.DeleteBatch(pb.DeleteBatchRequest(id=id, caller=self._caller), timeout=TIMEOUT_S)

    def watch(self, id: str) -> Iterator[pb.WatchBatchResponse]:
        """Every item once, as they come, until the batch has ended; from another node when the first has gone.

        Raises Unreachable when none has answered for a minute.
        """
        seen: set[int] = set()
        until = time.monotonic() + SILENCE_S
        while True:
            try:
                for reply in self._stub.WatchBatch(pb.WatchBatchRequest(id=id, caller=self._caller)):
                    until = time.monotonic() + SILENCE_S
                    new = [item for item in reply.items if item.index not in seen]
                    seen.update(item.index for item in new)
                    yield pb.WatchBatchResponse(batch=reply.batch, items=new)
                return
            except grpc.RpcError as error:
                if (
                    error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
                ):  # the server's limit for a stream; the batch goes on
                    continue
                if error.code() is not grpc.StatusCode.UNAVAILABLE or time.monotonic() > until:
                    raise self._error(error) from error
            time.sleep(_PAUSE_S)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except grpc.RpcError as error:
            raise self._error(error) from error

    def _error(self, error: grpc.RpcError) -> ApiError | Unreachable:
        code, text = error.code(), error.details() or ""
        if code is grpc.StatusCode.UNAVAILABLE:
            return Unreachable(f"The sandbox at {self._target} can't do this now: {text}")
        return ApiError(0, code.name, text)
