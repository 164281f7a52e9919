"""How fast workspaces start on this machine: `python -m tests.bench.workspace_start [ROUNDS]`.

AT_ONCE workspaces are asked for at the same moment, by gRPC, each until its first program has run (`true`); then all
are deleted. Beside them, where podman is installed and has IMAGE, as many containers by `podman run`.
"""

import asyncio
import os
import shutil
import statistics
import sys
import time

from ratchet.sandbox.v1 import workspace_pb2 as pb
from ratchet.sandbox.v1 import workspace_pb2_grpc
from ratchet_kit import logs
from ratchet_kit.client import channel
from ratchet_kit.server import serve
from sandbox_service.main import SERVICE, provision
from sandbox_service.settings import Settings

AT_ONCE = 64
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
            await delete(stub, (await start(stub))[0])
            alone, created, ran = [], [], []
            for number in range(rounds):
                one = await start(stub)
                alone.append(one[1])
                await delete(stub, one[0])
                await asyncio.sleep(1)
                found = await asyncio.gather(*(start(stub) for _ in range(AT_ONCE)))
                created += [one[1] for one in found]
                ran += [one[2] for one in found]
                await asyncio.gather(*(delete(stub, one[0]) for one in found))
                print(f"round {number + 1} of {rounds}", file=sys.stderr)
        stop.set()
        await serving
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores, load {os.getloadavg()[0]:.1f}, {rounds} rounds of {AT_ONCE} at once; seconds")
    show("one alone, until it is there", alone)
    show("at once, until it is there", created, f"wanted {P50:g} and {P99:g} on 2 cores")
    show("at once, until its first program has run", ran)
    if peers := await containers():
        show("podman run, until it has ended", peers)
        print(f"podman run / workspace, p50: {statistics.median(peers) / statistics.median(ran):.1f} (wanted: 10)")
    else:
        print(f"podman run: skipped, there is no podman with {IMAGE} here")


async def start(stub: "workspace_pb2_grpc.WorkspaceServiceAsyncStub") -> tuple[str, float, float]:
    """Its id, and the seconds until it was there, and until its first program had run."""
    started = time.perf_counter()
    made = await stub.CreateWorkspace(pb.CreateWorkspaceRequest(limits=LIMITS))
    there = time.perf_counter() - started
    request = pb.ExecRequest(start=pb.ExecStart(id=made.workspace.id, argv=["true"]))
    replies = [reply async for reply in stub.Exec(iter([request]))]
    assert replies[-1].exit.end == pb.ExecExit.END_EXITED
    return made.workspace.id, there, time.perf_counter() - started


async def delete(stub: "workspace_pb2_grpc.WorkspaceServiceAsyncStub", id: str) -> None:
    await stub.DeleteWorkspace(pb.DeleteWorkspaceRequest(id=id))


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
