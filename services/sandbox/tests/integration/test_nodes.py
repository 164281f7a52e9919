"""Several nodes behind one name: all of them work, and one that stops is not missed."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ratchet.sandbox.v1 import sandbox_pb2 as pb
from ratchet.sandbox.v1 import sandbox_pb2_grpc
from ratchet_kit.client import channel
from ratchet_kit.server import serve
from sandbox_service.main import adder, sandbox_servicer
from sandbox_service.settings import Settings

pytestmark = pytest.mark.integration

EXECUTE = pb.ExecuteRequest(program=pb.Program(source="print(1)"))


@asynccontextmanager
async def node(name: str, seen: Counter[str]) -> AsyncIterator[str]:
    settings = Settings(port=0, lanes=1)
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    async with sandbox_servicer(settings) as servicer:
        execute = servicer.Execute

        async def counted(request: pb.ExecuteRequest, context: Any) -> pb.ExecuteResponse:
            seen[name] += 1
            return await execute(request, context)

        servicer.Execute = counted  # type: ignore[method-assign]
        serving = asyncio.create_task(serve(settings, "sandbox", adder(servicer), on_ready=ready.set_result, stop=stop))
        try:
            yield f"127.0.0.1:{await ready}"
        finally:
            stop.set()
            await serving


async def test_programs_go_to_all_nodes_and_go_on_when_one_stops() -> None:
    seen: Counter[str] = Counter()
    async with node("one", seen) as one:
        async with node("two", seen) as two, channel(f"ipv4:{one},{two}") as door:
            stub = sandbox_pb2_grpc.SandboxServiceStub(door)
            async with asyncio.timeout(30):
                while len(seen) < 2:  # until both are connected
                    await stub.Execute(EXECUTE)
            seen.clear()
            replies = await asyncio.gather(*(stub.Execute(EXECUTE) for _ in range(20)))
            assert seen == {"one": 10, "two": 10}
        async with channel(f"ipv4:{two},{one}") as door:
            stub = sandbox_pb2_grpc.SandboxServiceStub(door)
            replies += await asyncio.gather(*(stub.Execute(EXECUTE) for _ in range(20)))
    assert {reply.execution.verdict for reply in replies} == {pb.VERDICT_PASSED}
    assert seen == {"one": 30, "two": 10}
