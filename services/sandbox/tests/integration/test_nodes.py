"""Several nodes behind one name: all of them work, and one that stops is not missed."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet.sandbox.v1 import program_pb2_grpc
from ratchet_kit.client import channel
from ratchet_kit.server import serve
from sandbox_service.main import provision
from sandbox_service.servicer import ProgramServicer
from sandbox_service.settings import Settings

from ..node import Stubs

pytestmark = pytest.mark.integration

EXECUTE = pb.ExecuteRequest(program=pb.Program(source="print(1)"))


@asynccontextmanager
async def node(name: str, seen: Counter[str]) -> AsyncIterator[str]:
    """A node that counts its calls."""
    settings, stop = Settings(port=0, lanes=1), asyncio.Event()
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    class Counted(ProgramServicer):
        async def Execute(self, request: pb.ExecuteRequest, context: Any) -> pb.ExecuteResponse:
            seen[name] += 1
            return await super().Execute(request, context)

    async with provision(settings) as service:

        def add(server: grpc.aio.Server) -> list[str]:
            servicer = Counted(service.sandbox, service.bounds, service.unpack)
            program_pb2_grpc.add_ProgramServiceServicer_to_server(servicer, server)
            return [pb.DESCRIPTOR.services_by_name["ProgramService"].full_name]

        task = asyncio.create_task(serve(settings, "sandbox", add, on_ready=ready.set_result, stop=stop))
        try:
            await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
            assert ready.done(), task.result()
            yield f"127.0.0.1:{ready.result()}"
        finally:
            stop.set()
            await task


async def test_programs_go_to_all_nodes_and_go_on_when_one_stops() -> None:
    seen: Counter[str] = Counter()
    async with node("one", seen) as one:
        async with node("two", seen) as two, channel(f"ipv4:{one},{two}") as door:
            stub = Stubs.of(door)
            async with asyncio.timeout(30):
                while len(seen) < 2:  # until both are connected
                    await stub.programs.Execute(EXECUTE)
            seen.clear()
            replies = await asyncio.gather(*(stub.programs.Execute(EXECUTE) for _ in range(20)))
            assert seen == {"one": 10, "two": 10}
        async with channel(f"ipv4:{two},{one}") as door:
            stub = Stubs.of(door)
            replies += await asyncio.gather(*(stub.programs.Execute(EXECUTE) for _ in range(20)))
    assert {reply.execution.verdict for reply in replies} == {verdict_pb2.VERDICT_PASSED}
    assert seen == {"one": 30, "two": 10}
