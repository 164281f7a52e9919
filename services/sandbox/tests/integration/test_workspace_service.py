"""WorkspaceService over gRPC, as callers meet it; and a service that is killed."""

import asyncio
import io
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
import pytest_asyncio

from ratchet.sandbox.v1 import program_pb2
from ratchet.sandbox.v1 import workspace_pb2 as pb
from ratchet_kit.client import channel
from ratchet_testing import free_port
from sandbox_service.adapters.lanes import cgroups
from sandbox_service.settings import Settings

from ..node import Stubs, serving

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

MIB = 1 << 20
LIMITS = pb.WorkspaceLimits(memory_bytes=128 * MIB, disk_bytes=16 * MIB)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stubs() -> AsyncIterator[Stubs]:
    settings = Settings(port=0, metrics_port=0, lanes=1, log_level="ERROR", workspace_bytes=512 * MIB)
    async with serving(settings) as address, channel(address) as connection:
        yield Stubs.of(connection)


async def _new(stubs: Stubs, caller: str = "me", **fields: Any) -> str:
    request = pb.CreateWorkspaceRequest(limits=LIMITS, caller=caller, **fields)
    return (await stubs.workspaces.CreateWorkspace(request)).workspace.id


async def _exec(stubs: Stubs, id: str, *argv: str, stdin: bytes = b"", **fields: Any) -> tuple[bytes, pb.ExecExit]:
    start = pb.ExecStart(id=id, argv=argv, caller="me", **fields)
    requests = [pb.ExecRequest(start=start), *([pb.ExecRequest(stdin=stdin)] if stdin else [])]
    replies = [reply async for reply in stubs.workspaces.Exec(iter(requests))]
    return b"".join(reply.stdout for reply in replies), replies[-1].exit


async def _code(asked: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await asked
    return refused.value.code()


async def test_a_workspace_from_start_to_end(stubs: Stubs) -> None:
    made = await stubs.workspaces.CreateWorkspace(pb.CreateWorkspaceRequest(limits=LIMITS, caller="me"))
    id = made.workspace.id
    assert made.workspace.level
    assert made.workspace.limits.disk_bytes == 16 * MIB
    out, end = await _exec(stubs, id, "python", "-c", "import sys; open('a', 'w').write(sys.stdin.read())", stdin=b"hi")
    assert (out, end.end, end.status) == (b"", pb.ExecExit.END_EXITED, 0)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo("b")
        entry.size = 3 * MIB
        archive.addfile(entry, io.BytesIO(bytes(entry.size)))
    data = packed.getvalue()
    chunks = [pb.WriteFilesRequest(tar=data[i : i + MIB]) for i in range(0, len(data), MIB)]
    chunks[0].MergeFrom(pb.WriteFilesRequest(id=id, caller="me", folder="in"))
    written = await stubs.workspaces.WriteFiles(iter(chunks))
    assert written.usage.disk_bytes >= 3 * MIB
    reading = stubs.workspaces.ReadFiles(pb.ReadFilesRequest(id=id, paths=["."], caller="me"))
    read = b"".join([reply.tar async for reply in reading])
    with tarfile.open(fileobj=io.BytesIO(read)) as archive:
        assert sorted(archive.getnames()) == ["a", "in", "in/b"]
    (one,) = (await stubs.workspaces.ListWorkspaces(pb.ListWorkspacesRequest(caller="me"))).workspaces
    assert (one.id, one.usage.disk_bytes) == (id, written.usage.disk_bytes)
    renewed = await stubs.workspaces.RenewWorkspace(pb.RenewWorkspaceRequest(id=id, caller="me"))
    assert renewed.workspace.expire_time.ToDatetime() > one.expire_time.ToDatetime()
    await stubs.workspaces.DeleteWorkspace(pb.DeleteWorkspaceRequest(id=id, caller="me"))
    gone = _code(stubs.workspaces.DeleteWorkspace(pb.DeleteWorkspaceRequest(id=id, caller="me")))
    assert await gone is grpc.StatusCode.NOT_FOUND


async def test_what_does_not_fit_is_told_however_much_is_still_to_be_written(stubs: Stubs) -> None:
    id = await _new(stubs)
    entry = tarfile.TarInfo("x")
    entry.size = 40 * MIB
    data = entry.tobuf() + bytes(entry.size)
    chunks = [pb.WriteFilesRequest(tar=data[i : i + MIB]) for i in range(0, len(data), MIB)]
    chunks[0].MergeFrom(pb.WriteFilesRequest(id=id, caller="me"))
    for _ in range(8):
        assert await _code(stubs.workspaces.WriteFiles(iter(chunks))) is grpc.StatusCode.RESOURCE_EXHAUSTED
    await stubs.workspaces.DeleteWorkspace(pb.DeleteWorkspaceRequest(id=id, caller="me"))


async def test_output_comes_while_the_program_runs_and_input_while_it_is_asked(stubs: Stubs) -> None:
    id = await _new(stubs)
    call = stubs.workspaces.Exec()
    source = "import sys\nfor line in sys.stdin: print('got', line, end='', flush=True)"
    await call.write(pb.ExecRequest(start=pb.ExecStart(id=id, argv=["python", "-c", source], caller="me")))
    for word in (b"one\n", b"two\n"):
        await call.write(pb.ExecRequest(stdin=word))
        assert (await call.read()).stdout == b"got " + word
    await call.done_writing()
    assert (await call.read()).exit.status == 0
    await stubs.workspaces.DeleteWorkspace(pb.DeleteWorkspaceRequest(id=id, caller="me"))


async def test_errors(stubs: Stubs) -> None:
    create, invalid = stubs.workspaces.CreateWorkspace, grpc.StatusCode.INVALID_ARGUMENT
    new = pb.CreateWorkspaceRequest
    assert await _code(create(new(runtime="no-such", limits=LIMITS))) is grpc.StatusCode.UNIMPLEMENTED
    assert await _code(create(new(limits=pb.WorkspaceLimits(memory_bytes=1)))) is invalid
    assert await _code(create(new(limits=pb.WorkspaceLimits(processes=-1)))) is invalid
    too_much = pb.WorkspaceLimits(memory_bytes=400 * MIB, disk_bytes=400 * MIB)
    assert await _code(create(new(limits=too_much))) is invalid
    id = await _new(stubs, request_id="once")
    assert await _new(stubs, request_id="once") == id
    assert await _new(stubs, request_id="once", caller="other") != id
    assert await _code(_new(stubs, request_id="once", keep_processes=True)) is grpc.StatusCode.ALREADY_EXISTS
    for bad in (
        [pb.ExecRequest(stdin=b"x")], [pb.ExecRequest(start=pb.ExecStart(id=id, caller="me"))],
        [pb.ExecRequest(start=pb.ExecStart(id=id, caller="me", argv=["x"], folder="../x"))],
        [pb.ExecRequest(start=pb.ExecStart(id=id, caller="me", argv=["x" * 70_000]))],
        [pb.ExecRequest(start=pb.ExecStart(id=id, caller="me", argv=["cat"]))] * 2, [],
    ):  # fmt: skip
        assert await _code(_drained(stubs.workspaces.Exec(iter(bad)))) is invalid
    for path in ("/etc", "a/../..", "no such"):
        reading = stubs.workspaces.ReadFiles(pb.ReadFilesRequest(id=id, caller="me", paths=[path]))
        assert await _code(_drained(reading)) is invalid
    await _new(stubs)
    assert await _code(create(new(limits=LIMITS))) is grpc.StatusCode.RESOURCE_EXHAUSTED
    hers = stubs.workspaces.RenewWorkspace(pb.RenewWorkspaceRequest(id=id, caller="other"))
    assert await _code(hers) is grpc.StatusCode.NOT_FOUND
    for caller in ("me", "other"):
        for one in (await stubs.workspaces.ListWorkspaces(pb.ListWorkspacesRequest(caller=caller))).workspaces:
            await stubs.workspaces.DeleteWorkspace(pb.DeleteWorkspaceRequest(id=one.id, caller=caller))


async def _drained(call: Any) -> None:
    async for _ in call:
        pass


async def test_a_lease_ends_by_itself(stubs: Stubs) -> None:
    request = pb.CreateWorkspaceRequest(limits=LIMITS, caller="me")
    request.lease.FromSeconds(1)
    id = (await stubs.workspaces.CreateWorkspace(request)).workspace.id
    call = _exec(stubs, id, "python", "-c", "import time; time.sleep(60)")
    assert await _code(call) is grpc.StatusCode.NOT_FOUND
    assert not (await stubs.workspaces.ListWorkspaces(pb.ListWorkspacesRequest(caller="me"))).workspaces


def _start(port: int, folder: Path) -> subprocess.Popen[bytes]:
    settings = {"PORT": str(port), "METRICS_PORT": "0", "LANES": "1", "LOG_LEVEL": "ERROR"}
    environment = {f"RATCHET_SANDBOX_{name}": value for name, value in settings.items()} | {"TMPDIR": str(folder)}
    return subprocess.Popen([sys.executable, "-m", "sandbox_service.main"], env={**os.environ, **environment})


async def test_nothing_survives_a_service_that_is_killed(tmp_path: Path) -> None:
    port = free_port()
    for ends in ("killed", "stopped"):
        service = _start(port, tmp_path)
        try:
            async with channel(f"127.0.0.1:{port}") as connection:
                await asyncio.wait_for(connection.channel_ready(), 60)
                stubs = Stubs.of(connection)
                ids = [await _new(stubs, keep_processes=True) for _ in range(3)]
                if (await stubs.programs.GetCapabilities(program_pb2.GetCapabilitiesRequest())).processes:
                    daemon = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)"
                    assert (await _exec(stubs, ids[0], "python", "-c", daemon))[1].status == 0
                busy = asyncio.create_task(_exec(stubs, ids[1], "python", "-c", "while True: pass"))
                await asyncio.sleep(1)
                all_of_it = psutil.Process(service.pid).children(recursive=True)
                assert len(all_of_it) >= 10
                service.send_signal(signal.SIGKILL if ends == "killed" else signal.SIGTERM)
                await asyncio.gather(busy, return_exceptions=True)
        finally:
            if ends == "killed":
                service.kill()
            assert service.wait(60) == (-signal.SIGKILL if ends == "killed" else 0)
        _, alive = psutil.wait_procs(all_of_it, timeout=10)
        assert not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]
    # the second start has removed what the first could not
    assert not [name for name in os.listdir(tmp_path) if name.startswith("ratchet-sandbox-")]
    home = cgroups.find_or_reason()
    if isinstance(home, cgroups.Home):
        assert not home.own_of(service.pid)
