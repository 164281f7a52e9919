"""What a call to the sandbox has brought counts, though its time is over before all of it came."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import grpc
import pytest

from ratchet.common.v1 import problem_pb2, verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet.sandbox.v1 import program_pb2_grpc
from ratchet_environments.sandbox import GrpcSandbox
from ratchet_kit.errors import DeadlineExceeded
from ratchet_kit.times import duration_to_proto


class SlowFrom(program_pb2_grpc.ProgramServiceServicer):
    """Answers at once up to this program, and the others never."""

    def __init__(self, index: int) -> None:
        self._index = index

    async def StreamExecute(self, requests: AsyncIterator[Any], context: object) -> AsyncIterator[Any]:
        async for request in requests:
            for index in range(min(self._index, len(request.programs))):
                execution = pb.Execution(verdict=verdict_pb2.VERDICT_PASSED)
                yield pb.StreamExecuteResponse(items=[pb.ExecutionItem(index=index, execution=execution)])
        await asyncio.sleep(60)


class Slowly(program_pb2_grpc.ProgramServiceServicer):
    """Answers one program after the other, `each` after so many seconds."""

    def __init__(self, each: float) -> None:
        self._each = each

    async def StreamExecute(self, requests: AsyncIterator[Any], context: object) -> AsyncIterator[Any]:
        async for request in requests:
            for index in range(len(request.programs)):
                await asyncio.sleep(self._each)
                execution = pb.Execution(verdict=verdict_pb2.VERDICT_PASSED)
                yield pb.StreamExecuteResponse(items=[pb.ExecutionItem(index=index, execution=execution)])


@asynccontextmanager
async def served(servicer: program_pb2_grpc.ProgramServiceServicer) -> AsyncIterator[GrpcSandbox]:
    server = grpc.aio.server()
    program_pb2_grpc.add_ProgramServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield GrpcSandbox(channel, silence=timedelta(seconds=1))
    await server.stop(None)


async def test_what_came_in_time_counts() -> None:
    async with served(SlowFrom(2)) as sandbox:
        items = await sandbox.execute_batch([pb.Program(id=str(number)) for number in range(3)])
    assert [item.WhichOneof("outcome") for item in items] == ["execution", "execution", None]


async def test_where_nothing_came_in_time_that_is_raised() -> None:
    async with served(SlowFrom(0)) as sandbox:
        with pytest.raises(DeadlineExceeded, match="no program came back for 1 s"):
            await sandbox.execute_batch([pb.Program(id="0")])


async def test_what_may_compute_for_long_is_waited_for_and_each_that_comes_is_a_sign_of_life() -> None:
    long = duration_to_proto(timedelta(seconds=0.2))
    programs = [pb.Program(id=str(number), limits=problem_pb2.Limits(cpu_time=long)) for number in range(3)]
    async with served(Slowly(each=2.0)) as sandbox:  # a second of silence is allowed, and ten times 0.2 s
        items = await sandbox.execute_batch(programs)
    assert [item.WhichOneof("outcome") for item in items] == ["execution"] * 3
