"""The sandbox as the executor needs it, and the one behind gRPC."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

import grpc

from ratchet.common.v1 import priority_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet.sandbox.v1 import program_pb2_grpc
from ratchet_kit.errors import DeadlineExceeded
from ratchet_kit.grpc_errors import rpc_errors

BUSY = 10
"""A program gets one part in this many of a core on an overloaded machine. The sandbox's own last
resort on the clock is later (RATCHET_SANDBOX_WALL_FACTOR)."""


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

    `silence`: how long no program may come back, beside `BUSY` times the CPU time that the longest one has. `caller`:
    who asks, "eval"; lanes are shared fairly between callers. Unset, it is this machine's address.
    `priority`: programs of a higher one go first.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        silence: timedelta = timedelta(minutes=10),
        caller: str = "",
        priority: priority_pb2.Priority.ValueType = priority_pb2.PRIORITY_UNSPECIFIED,
    ) -> None:
        self._caller = caller
        self._priority = priority
        self._stub = program_pb2_grpc.ProgramServiceStub(channel)
        self._silence = silence

    async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
        request = pb.StreamExecuteRequest(programs=programs, caller=self._caller, priority=self._priority)
        longest = max(program.limits.cpu_time.ToTimedelta() for program in programs)
        silence = (self._silence + BUSY * longest).total_seconds()
        items: dict[int, pb.ExecutionItem] = {}
        try:
            with rpc_errors():
                call = self._stub.StreamExecute(iter([request]), timeout=silence * (len(programs) + 1))
                responses = aiter(call)
                while response := await asyncio.wait_for(anext(responses, None), silence):
                    items |= {item.index: item for item in response.items}
        except TimeoutError:
            call.cancel()
            if not items:
                raise DeadlineExceeded(f"no program came back for {silence:.0f} s") from None
        # one that did not come back (in time) has no outcome, which is a fault of the platform
        return [items.get(i, pb.ExecutionItem(index=i)) for i in range(len(programs))]
