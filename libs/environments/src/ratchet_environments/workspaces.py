"""Workspaces of a sandbox node, as environments and harnesses use them.

async with Workspaces("127.0.0.1:8704", "me").open() as workspace:
    await workspace.write(tar, "work")
    done = await workspace.exec("bash", "-c", "make", folder="work")
    files = await workspace.read("work")
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from ratchet.sandbox.v1 import workspace_pb2 as pb
from ratchet.sandbox.v1 import workspace_pb2_grpc
from ratchet_environments.relay import Relay
from ratchet_kit import client, images
from ratchet_kit.errors import NotFound, RatchetError, ResourceExhausted
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_kit.logs import get_logger
from ratchet_kit.times import duration_from_proto, duration_to_proto

log = get_logger(__name__)

LEASE = timedelta(minutes=1)
MOST_BYTES = 256 << 20
"""Bytes of a tar that is read, unless the caller says so."""
_CHUNK = 1 << 20
_PATIENCE = timedelta(minutes=2)
"""How long a workspace is waited for where the node has no room."""
_UNPACKING = timedelta(minutes=30)
"""And one with an image, which a node unpacks when it is first used."""
_LONGEST = timedelta(hours=25)
"""Longest a call may take: no workspace lives longer than a day."""


@dataclass(frozen=True, slots=True)
class Done:
    """A program that has ended. Its output is its own; how it ended is observed from outside."""

    exit: pb.ExecExit
    stdout: bytes
    stderr: bytes

    @property
    def succeeded(self) -> bool:
        return self.exit.end == pb.ExecExit.END_EXITED and self.exit.status == 0

    @property
    def ending(self) -> str:
        """ "status 1", "the wall limit": how it ended, in words."""
        if self.exit.reason:
            return f"not started: {self.exit.reason}"
        if self.exit.end == pb.ExecExit.END_EXITED:
            return f"signal {-self.exit.status}" if self.exit.status < 0 else f"status {self.exit.status}"
        return "the " + pb.ExecExit.End.Name(self.exit.end).removeprefix("END_").lower().replace("_", " ")


def own_limit(error: ResourceExhausted) -> str:
    """The limit of the workspace that was reached, in words. Raises the error where the node is busy instead."""
    if error.retry_after is not None:
        raise error
    return error.message


class Workspace:
    """One that lives until its context ends. Each call raises NotFound once the node has lost it, Unavailable,
    ResourceExhausted where a limit of it is reached, or, with a hint when to try again, the node is busy,
    InvalidArgument."""

    def __init__(self, stub: "workspace_pb2_grpc.WorkspaceServiceAsyncStub", made: pb.Workspace, caller: str) -> None:
        self._stub, self._caller = stub, caller
        self.made = made
        self.cpu_time = timedelta()
        """CPU time of the programs that have ended."""

    @property
    def id(self) -> str:
        return self.made.id

    async def exec(
        self,
        *argv: str,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        folder: str = "",
        wall_time: timedelta | None = None,
        output_bytes: int = 0,
        relay: tuple[str, int] | None = None,
    ) -> Done:
        """Runs a program to its end. `relay`: host and port that it reaches at `relay.URL`; it has no input then.

        Raises FailedPrecondition where the node's workspaces have no network of their own (L1).
        """

        async def given() -> AsyncIterator[bytes]:
            if stdin:
                yield stdin

        out, err, end = bytearray(), bytearray(), None
        stream = self.stream(argv, given(), environment, folder, wall_time, output_bytes, relay)
        async with aclosing(stream) as replies:
            async for reply in replies:
                out += reply.stdout
                err += reply.stderr
                end = reply.exit if reply.HasField("exit") else None
        if end is None:
            raise NotFound(f"workspace {self.id} ended while a program ran in it")
        return Done(end, bytes(out), bytes(err))

    async def stream(
        self,
        argv: Iterable[str],
        stdin: AsyncIterable[bytes],
        environment: Mapping[str, str] | None = None,
        folder: str = "",
        wall_time: timedelta | None = None,
        output_bytes: int = 0,
        relay: tuple[str, int] | None = None,
    ) -> AsyncGenerator[pb.ExecResponse]:
        """Output as it is written, and last the exit. The program's input ends where `stdin` does."""
        start = pb.ExecStart(
            id=self.id, caller=self._caller, argv=argv, environment=environment, folder=folder,
            output_bytes=output_bytes, relay=relay is not None,
        )  # fmt: skip
        if wall_time is not None:
            start.wall_time.CopyFrom(duration_to_proto(wall_time))

        carried = Relay(*relay) if relay else None

        async def requests() -> AsyncIterator[pb.ExecRequest]:
            yield pb.ExecRequest(start=start)
            if carried:
                async for piece in carried.pieces():
                    yield pb.ExecRequest(relay=piece)
                return
            async for data in stdin:
                for chunk in _chunks(data):
                    yield pb.ExecRequest(stdin=chunk)

        with rpc_errors():
            call = self._stub.Exec(requests())
            try:
                async for reply in call:
                    if carried and reply.HasField("relay"):
                        carried.take(reply.relay)
                    else:
                        self.cpu_time += duration_from_proto(reply.exit.cpu_time)
                        yield reply
            finally:
                call.cancel()  # does nothing to one that has ended
                if carried:
                    await carried.close()

    async def write(self, tar: bytes, folder: str = "") -> None:
        """Unpacks a tar below a folder."""
        requests = [pb.WriteFilesRequest(tar=chunk) for chunk in _chunks(tar)] or [pb.WriteFilesRequest()]
        requests[0].MergeFrom(pb.WriteFilesRequest(id=self.id, caller=self._caller, folder=folder))
        with rpc_errors():
            await self._stub.WriteFiles(iter(requests))

    async def read(self, *paths: str, most: int = MOST_BYTES, changed: bool = False) -> bytes:
        """A tar of files and folders: unpack it as a stranger's. `changed`: in a workspace with an image, of what
        differs from that, with `.wh.NAME` for what was removed. Raises ResourceExhausted beyond `most` bytes."""
        found = bytearray()
        request = pb.ReadFilesRequest(id=self.id, caller=self._caller, paths=paths, changed=changed)
        with rpc_errors():
            async for reply in self._stub.ReadFiles(request):
                found += reply.tar
                if len(found) > most:
                    raise ResourceExhausted(f"{', '.join(paths)}: more than {most} bytes")
        return bytes(found)

    async def renew(self) -> None:
        request = pb.RenewWorkspaceRequest(id=self.id, caller=self._caller, lease=duration_to_proto(LEASE))
        with rpc_errors():
            await self._stub.RenewWorkspace(request)

    async def delete(self) -> None:
        """Best effort: one that stays ends with its lease."""
        try:
            with rpc_errors():
                await self._stub.DeleteWorkspace(pb.DeleteWorkspaceRequest(id=self.id, caller=self._caller))
        except RatchetError as error:
            if not isinstance(error, NotFound):
                log.warning("workspace.not_deleted", id=self.id, reason=error.message)


class Workspaces:
    """WorkspaceService of the nodes at `target` (host:port). A workspace is on one of them, and so are its calls."""

    def __init__(self, target: str, caller: str = "") -> None:
        self._target, self._caller = target, caller
        self.cpu_time = timedelta()
        """CPU time of the programs in workspaces that are over."""
        self._two = asyncio.Lock()

    @asynccontextmanager
    async def open(
        self,
        runtime: str = "",
        limits: pb.WorkspaceLimits | None = None,
        *,
        keep_processes: bool = False,
        copy_of: str = "",
    ) -> AsyncIterator[Workspace]:
        """A workspace whose lease is renewed until the context ends, and which is deleted then. Raises as
        CreateWorkspace does; where no node has room, after two minutes of trying, with an image after thirty."""
        request = pb.CreateWorkspaceRequest(
            runtime=runtime, limits=limits, keep_processes=keep_processes, copy_of=copy_of, caller=self._caller,
            lease=duration_to_proto(LEASE),
        )  # fmt: skip
        async with AsyncExitStack() as node:
            workspace = await self._create(request, node)
            renewing = asyncio.create_task(_renew(workspace))
            try:
                yield workspace
            finally:
                renewing.cancel()
                await asyncio.gather(renewing, return_exceptions=True)
                self.cpu_time += workspace.cpu_time
                await asyncio.shield(workspace.delete())

    @asynccontextmanager
    async def two(
        self, runtime: str = "", limits: pb.WorkspaceLimits | None = None
    ) -> AsyncIterator[tuple[Workspace, Workspace]]:
        """Two at once, each as `open` has it. Of those who have one and wait for another there is one at a time here:
        several would hold all the room that each of them waits for."""
        async with AsyncExitStack() as stack:
            async with self._two:
                first = await stack.enter_async_context(self.open(runtime, limits))
                second = await stack.enter_async_context(self.open(runtime, limits))
            yield first, second

    async def _create(self, request: pb.CreateWorkspaceRequest, node: AsyncExitStack) -> Workspace:
        """`node` closes the channel to the node that made it. One that has no room may be another at the next try."""
        patience = _UNPACKING if images.is_image(request.runtime) else _PATIENCE
        until = asyncio.get_running_loop().time() + patience.total_seconds()
        while True:
            async with AsyncExitStack() as tried:
                channel = await tried.enter_async_context(
                    client.channel(self._target, stream_timeout=_LONGEST, to_one=True)
                )
                stub = workspace_pb2_grpc.WorkspaceServiceStub(channel)
                try:
                    with rpc_errors():
                        made = (await stub.CreateWorkspace(request)).workspace
                    node.push_async_exit(tried.pop_all())
                    return Workspace(stub, made, self._caller)
                except ResourceExhausted as error:
                    hint = error.retry_after.total_seconds() if error.retry_after else 1.0
                    wait = min(hint, 1.0) * random.uniform(0.5, 1.0)  # many wait side by side
                    if asyncio.get_running_loop().time() + wait > until:
                        raise
            await asyncio.sleep(wait)


async def _renew(workspace: Workspace) -> None:
    while True:
        await asyncio.sleep(LEASE.total_seconds() / 3)
        try:
            await workspace.renew()
        except NotFound:
            return  # whoever uses it next is told
        except RatchetError as error:
            log.warning("workspace.not_renewed", id=workspace.id, reason=error.message)


def _chunks(data: bytes) -> list[bytes]:
    return [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]
