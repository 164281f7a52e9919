"""How fast the sandbox is on this machine: `python tests/bench/sandbox_speed.py [PROGRAMS]`, in the light environment.

Programs a second of a trivial program with three call tests, each way measured in the same run, since other work on the
machine moves the absolute numbers. The limit is a fork and an exit of a warm Python in each of two processes.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

from ratchet.sandbox.v1 import sandbox_pb2 as pb
from ratchet.sandbox.v1 import sandbox_pb2_grpc
from ratchet_kit.client import channel
from ratchet_kit.server import serve
from sandbox_service.adapters.zygotes import ZygoteExecutor, ZygoteOptions
from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.program import CallTest, CheckTest, Program, StdioTest, Test
from sandbox_service.domain.sandbox import Sandbox
from sandbox_service.main import adder, sandbox_servicer
from sandbox_service.settings import Settings

LANES = len(os.sched_getaffinity(0))
BATCH = 64
PYTHON = os.path.realpath(sys.executable)
SOURCE = "def f(x):\n    return x + 1\n"
CALLS = tuple(CallTest((x,), x + 1) for x in range(3))
FORKER = "import os, sys\nfor _ in range(int(sys.argv[1])):\n    if os.fork() == 0: os._exit(0)\n    os.wait()\n"


def forks(count: int) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-I", "-S", "-c", FORKER, str(count // LANES)]) for _ in range(LANES)
    ]
    for process in processes:
        process.wait()


async def fresh(count: int) -> None:
    """A bare interpreter for each program, with no isolation: LANES at a time."""
    gate = asyncio.Semaphore(LANES)
    command = [PYTHON, "-I", "-S", "-c", SOURCE + "assert [f(0), f(1), f(2)] == [1, 2, 3]"]

    async def one() -> None:
        async with gate:
            process = await asyncio.create_subprocess_exec(*command)
            assert await process.wait() == 0

    await asyncio.gather(*(one() for _ in range(count)))


async def pool(sandbox: Sandbox, count: int, *tests: Test) -> None:
    source = SOURCE + "if __name__ == '__main__':\n    print(f(int(input())))\n"
    for start in range(0, count, BATCH):
        programs = [Program(str(i), source, "f", tests) for i in range(start, min(start + BATCH, count))]
        items = await sandbox.execute_batch(programs)
        assert all(isinstance(item, Execution) and item.verdict is Verdict.PASSED for item in items), items[0]


async def grpc(stub: sandbox_pb2_grpc.SandboxServiceStub, count: int) -> None:
    tests = [pb.Test(call=pb.CallTest(args=f"[{x}]", expected=str(x + 1))) for x in range(3)]

    async def batch(size: int) -> None:
        programs = [pb.Program(source=SOURCE, entry_point="f", tests=tests)] * size
        async for response in stub.ExecuteBatch(iter([pb.ExecuteBatchRequest(programs=programs)])):
            assert all(item.execution.verdict == pb.VERDICT_PASSED for item in response.items)

    await asyncio.gather(*(batch(BATCH) for _ in range(count // BATCH)))


async def measure(name: str, count: int, work: Callable[[int], Awaitable[None]], table: dict[str, float]) -> None:
    await work(min(count, BATCH))
    started = time.perf_counter()
    await work(count)
    table[name] = count / (time.perf_counter() - started)


async def main(count: int) -> None:
    table: dict[str, float] = {}
    await measure("bare fork and exit: the limit", count * 2, lambda n: asyncio.to_thread(forks, n), table)
    await measure("fresh python -I -S, no isolation", count // 4, fresh, table)
    async with ZygoteExecutor(ZygoteOptions(LANES)) as executor:
        sandbox = Sandbox(executor, count)
        layers = executor.capabilities.layers
        await measure("sandbox, 3 call tests", count, lambda n: pool(sandbox, n, *CALLS), table)
        await measure("sandbox, 1 stdio test", count, lambda n: pool(sandbox, n, StdioTest("1", "2")), table)
        await measure("sandbox, 1 check test", count, lambda n: pool(sandbox, n, CheckTest("assert f(1) == 2")), table)
    settings = Settings(port=0, lanes=LANES, log_level="ERROR")
    async with sandbox_servicer(settings) as servicer:
        stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(serve(settings, "sandbox", adder(servicer), on_ready=ready.set_result, stop=stop))
        async with channel(f"127.0.0.1:{await ready}") as door:
            stub = sandbox_pb2_grpc.SandboxServiceStub(door)
            await measure("the same 3 call tests by gRPC ExecuteBatch", count, lambda n: grpc(stub, n), table)
        stop.set()
        await serving
    limit, bare = list(table.values())[:2]
    print(f"{LANES} lanes; {', '.join(layers)}")
    print(f"{'':44}{'programs/s':>12}{'ms each':>9}{'of limit':>10}{'of fresh':>10}")
    for name, rate in table.items():
        print(f"{name:44}{rate:12.0f}{1000 / rate:9.2f}{rate / limit:10.2f}{rate / bare:10.2f}")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
