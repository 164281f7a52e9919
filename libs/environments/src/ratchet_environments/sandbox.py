"""What the executor needs of a sandbox, and the one behind gRPC."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

import grpc

from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet.sandbox.v1 import program_pb2_grpc
from ratchet_kit.errors import DeadlineExceeded
from ratchet_kit.grpc_errors import rpc_errors


class Sandbox(Protocol):
    """Executes programs."""

    async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
        """One item for each program, in order.

        Raises Unavailable, DeadlineExceeded, ResourceExhausted (worth another try), InvalidArgument (whose violations
        name `programs[i]`), Internal.
        """
        ...


class GrpcSandbox:
    """sandbox-service. `channel` comes from `ratchet_kit.client.channel`, and stays the caller's to close.

    `caller`: who asks, "eval"; lanes are shared fairly between callers. Unset, it is this machine's address.
    """

    def __init__(self, channel: grpc.aio.Channel, timeout: timedelta = timedelta(minutes=10), caller: str = "") -> None:
        self._caller = caller
        self._stub = program_pb2_grpc.ProgramServiceStub(channel)
        self._timeout = timeout.total_seconds()

    async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
        request = pb.StreamExecuteRequest(programs=programs, caller=self._caller)
        items: dict[int, pb.ExecutionItem] = {}
        try:
            with rpc_errors():
                async for response in self._stub.StreamExecute(iter([request]), timeout=self._timeout):
                    items |= {item.index: item for item in response.items}
        except DeadlineExceeded:
            if not items:
                raise
        # one that did not come back (in time) has no outcome, which is a fault of the platform
        return [items.get(i, pb.ExecutionItem(index=i)) for i in range(len(programs))]
