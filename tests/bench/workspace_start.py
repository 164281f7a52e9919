"""How fast workspaces start on this machine: `python -m tests.bench.workspace_start [ROUNDS]`.

AT_ONCE workspaces are asked for at the same moment, by gRPC; then a program (`true`) is run in all of them at
once. Beside them, where podman is installed and has IMAGE, as many containers by `podman run`.
"""

import asyncio
import os
import shutil
import statistics
import sys
import time
from collections.abc import Awaitable
from dataclasses import dataclass

from ratchet.sandbox.v1 import workspace_pb2 as pb
from ratchet.sandbox.v1 import workspace_pb2_grpc
from ratchet_kit import logs
from ratchet_kit.client import channel
from ratchet_kit.server import serve
from sandbox_service.main import SERVICE, provision
from sandbox_service.settings import Settings

AT_ONCE = 64
PAUSE = 5
"""Seconds between rounds, in which the service forks as many keepers as were used."""
IMAGE = "docker.io/library/busybox"
P50, P99 = 0.05, 0.2
"""What is wanted, in seconds, of a start on two cores."""
LIMITS = pb.WorkspaceLimits(memory_bytes=64 << 20, disk_bytes=1 << 20)


async def main(rounds: int) -> None:
    logs.configure(SERVICE, "ERROR")
    settings = Settings(port=0, metrics_port=0, lanes=1, log_level="ERROR")
    async with provision(settings) as service:
        stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(
            serve(
                settings, SERVICE, service.add_to, background=service.background, on_ready=ready.set_result, stop=stop
            )
        )
        async with channel(f"127.0.0.1:{await ready}") as connection:
            stub = workspace_pb2_grpc.WorkspaceServiceStub(connection)
            first, alone, created, ran = await together(stub), [], [], []
            for number in range(rounds):
                await asyncio.sleep(PAUSE)
                alone += (await together(stub, 1)).created
                await asyncio.sleep(PAUSE)
                found = await together(stub)
                created += found.created
                ran += found.ran
                print(f"round {number + 1} of {rounds}", file=sys.stderr)
        stop.set()
        await serving
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores, load {os.getloadavg()[0]:.1f}, {rounds} rounds of {AT_ONCE} at once; seconds")
    show("the first ones of a service", first.created)
    show("one alone", alone)
    show("at once", created, f"wanted {P50:g} and {P99:g} on 2 cores")
    show("at once, the first program in each", ran)
    if peers := await containers():
        show("podman run, until it has ended", peers)
        ratio = statistics.median(peers) / (statistics.median(created) + statistics.median(ran))
        print(f"podman run / workspace and program, p50: {ratio:.1f} (wanted: 10)")
    else:
        print(f"podman run: skipped, there is no podman with {IMAGE} here")


@dataclass(frozen=True, slots=True)
class Times:
    created: list[float]
    ran: list[float]


async def together(stub: "workspace_pb2_grpc.WorkspaceServiceAsyncStub", count: int = AT_ONCE) -> Times:
    """Starts so many at once, runs `true` in all of them at once, and deletes them."""
    ids, created = zip(*await asyncio.gather(*(timed(create(stub)) for _ in range(count))), strict=True)
    _, ran = zip(*await asyncio.gather(*(timed(run(stub, id)) for id in ids)), strict=True)
    await asyncio.gather(*(stub.DeleteWorkspace(pb.DeleteWorkspaceRequest(id=id)) for id in ids))
    return Times(list(created), list(ran))


async def timed(work: Awaitable[str]) -> tuple[str, float]:
    started = time.perf_counter()
    return await work, time.perf_counter() - started


async def create(stub: "workspace_pb2_grpc.WorkspaceServiceAsyncStub") -> str:
    return (await stub.CreateWorkspace(pb.CreateWorkspaceRequest(limits=LIMITS))).workspace.id


async def run(stub: "workspace_pb2_grpc.WorkspaceServiceAsyncStub", id: str) -> str:
    request = pb.ExecRequest(start=pb.ExecStart(id=id, argv=["true"]))
    replies = [reply async for reply in stub.Exec(iter([request]))]
    assert replies[-1].exit.end == pb.ExecExit.END_EXITED
    return id


async def containers() -> list[float]:
    """Nothing where there is no podman, or not the image: none is fetched."""
    if not shutil.which("podman") or await _status("podman", "image", "exists", IMAGE):
        return []

    async def one() -> float:
        started = time.perf_counter()
        assert not await _status("podman", "run", "--rm", "--network=none", IMAGE, "true")
        return time.perf_counter() - started

    return await asyncio.gather(*(one() for _ in range(AT_ONCE)))


async def _status(*command: str) -> int:
    silent = asyncio.subprocess.DEVNULL
    return await (await asyncio.create_subprocess_exec(*command, stdout=silent, stderr=silent)).wait()


def show(name: str, seconds: list[float], wanted: str = "") -> None:
    ordered = sorted(seconds)
    p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    print(f"{name:42} p50 {statistics.median(ordered):.3f}  p99 {p99:.3f}  {wanted}")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 3))
