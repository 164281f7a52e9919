"""One workspace as the service sees it: a keeper, forked by the nursery, and what its programs read and write."""

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ratchet_kit.errors import FailedPrecondition, ResourceExhausted, invalid
from ratchet_kit.logs import get_logger
from sandbox_service.adapters.images.store import Image
from sandbox_service.adapters.lanes import cgroups, protocol
from sandbox_service.adapters.workspaces.nursery import receive, receive_socket
from sandbox_service.adapters.workspaces.relay import Relay
from sandbox_service.adapters.workspaces.streams import Inlet, Outlet
from sandbox_service.cage.lane import scratch
from sandbox_service.domain.levels import Level
from sandbox_service.domain.ports import CageLost
from sandbox_service.domain.workspace import (
    Command,
    ExecEnd,
    Exit,
    Output,
    Relayed,
    Usage,
    WorkspaceLimits,
    WorkspaceSpec,
)

log = get_logger(__name__)

_CANCEL_GRACE, _STOP_GRACE = 10, 1  # seconds
_FILES_CPU, _FILES_WALL = timedelta(minutes=1), timedelta(minutes=10)
_COMMAND = "command"
_INODE = 4096  # bytes of disk for each file that there may be, at least
_FULL = tuple(f"[Errno {number}]" for number in (errno.ENOSPC, errno.EFBIG))
_OWN_PROCESSES = 2  # its keeper and its pid 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where a workspace is made. `release` gives back its user id, and its image."""

    stage: str
    cgroup: cgroups.LaneCgroup | None
    environment: dict[str, str]
    release: Callable[[], None]
    image: Image | None = None


class WorkspaceCage:
    def __init__(self, place: Place, pid: int, connection: socket.socket) -> None:
        """`pid`: of its keeper."""
        self._place, self._socket = place, connection
        self._spec = WorkspaceSpec()
        self._keeper = os.pidfd_open(pid)
        self._kills = cgroups.Kills()
        self._up, self._stopped = True, False
        self.level = Level.NONE
        self.layers: tuple[str, ...] = ()
        self.door: socket.socket | None = None
        """The relay's port; without one `no_relay` says why."""
        self.no_relay = ""

    async def open(self, spec: WorkspaceSpec) -> None:
        """From here on it is a workspace's. Raises OSError, EOFError, FailedPrecondition."""
        self._spec, limits = spec, spec.limits
        if self._place.cgroup:
            self._place.cgroup.limit_pids(limits.processes + _OWN_PROCESSES)
            self._place.cgroup.settle(limits.disk_bytes)
            self._place.cgroup.limit_memory(limits.memory_bytes)
        setup = {
            "cpu": limits.cpu_time.total_seconds(),
            "memory": limits.memory_bytes,
            "disk": disk_of(limits),
            "stays": spec.keep_processes,
        }
        await self.set_up(setup)

    async def set_up(self, setup: dict[str, object]) -> dict[str, Any]:
        """The keeper's answer to its setup. Raises OSError, EOFError, FailedPrecondition where it lacks something."""
        await asyncio.get_running_loop().sock_sendall(self._socket, protocol.frame(setup))
        said = await receive(self._socket)
        if "lacking" in said:
            raise FailedPrecondition(said["lacking"])
        if (no_relay := said.get("no_relay")) is not None:
            self.no_relay = no_relay
            self.door = None if no_relay else await receive_socket(self._socket)
        return said

    @property
    def is_up(self) -> bool:
        """True until its keeper has hung up. Not while a call is under way."""
        if self._up and not self._stopped:
            with contextlib.suppress(BlockingIOError):
                # nobody sends anything unasked: what is there to read is the end
                self._up = bool(self._socket.recv(1, socket.MSG_PEEK))
        return self._up

    async def run(
        self, command: Command, given: AsyncIterator[bytes | Relayed]
    ) -> AsyncGenerator[Output | Relayed | Exit]:
        if command.relay and self.door is None:
            raise FailedPrecondition(f"this workspace ({self.level}) can have no relay: {self.no_relay}")
        limits = self._spec.limits
        folder = command.folder or (self._place.image.workdir if self._place.image else "")
        arguments = (command.argv, {**self._place.environment, **command.environment}, folder)
        cpu = min(command.cpu_time or limits.cpu_time, limits.cpu_time)
        wall = min(command.wall_time or limits.wall_time, limits.wall_time)
        room, cut = command.output_bytes, False
        stdin: AsyncIterator[bytes] = (one async for one in given if isinstance(one, bytes))
        pieces: AsyncIterator[Relayed] | None = None
        if command.relay:
            stdin, pieces = _nothing(), (one async for one in given if isinstance(one, Relayed))
        async with contextlib.aclosing(self._do(_COMMAND, arguments, cpu, wall, stdin, pieces)) as events:
            async for event in events:
                if isinstance(event, Output):
                    data = event.data[:room]
                    cut = cut or len(data) < len(event.data)
                    room -= len(data)
                    if data:
                        yield Output(data, event.error)
                elif isinstance(event, Relayed):
                    yield event
                else:
                    yield _exit(event, cut)

    async def write(self, folder: str, archive: AsyncIterator[bytes]) -> Usage:
        arguments = (folder, self._place.image is not None)
        async with contextlib.aclosing(self._do("write", arguments, _FILES_CPU, _FILES_WALL, archive)) as events:
            async for event in events:
                if isinstance(event, dict):
                    return _moved(event).usage
        raise CageLost("it ended")

    async def read(self, names: Sequence[str], changed: bool = False) -> AsyncGenerator[bytes]:
        arguments = (tuple(names), self._spec.limits.disk_bytes)
        mode = "changed" if changed and self._place.image else "read"
        async with contextlib.aclosing(self._do(mode, arguments, _FILES_CPU, _FILES_WALL, _nothing())) as events:
            async for event in events:
                if isinstance(event, dict):
                    _moved(event)
                elif isinstance(event, Output) and not event.error:
                    yield event.data

    async def _do(
        self,
        mode: str,
        arguments: tuple[object, ...],
        cpu: timedelta,
        wall: timedelta,
        stdin: AsyncIterator[bytes],
        pieces: AsyncIterator[Relayed] | None = None,
    ) -> AsyncGenerator[Output | Relayed | dict[str, Any]]:
        """Output, and last the keeper's answer. `pieces`: the relay's, if there is one."""
        changed = asyncio.Event()
        limits = self._spec.limits
        tasks = limits.processes + _OWN_PROCESSES
        payload = protocol.frame((mode, arguments, limits.memory_bytes, cpu.total_seconds(), limits.disk_bytes, tasks))
        seconds = {"cpu": cpu.total_seconds(), "wall": wall.total_seconds()}
        head = {"do": "run", "is_command": mode == _COMMAND, **seconds}
        inlet, outlets = Inlet(), (Outlet(changed), Outlet(changed))
        relay = Relay(self.door, changed) if self.door and pieces else None
        feed = answer = None
        try:
            feeds = [relay.start(pieces)] if relay and pieces else []
            note = os.memfd_create("payload")
            try:
                os.write(note, payload)
                os.lseek(note, 0, os.SEEK_SET)
                try:
                    socket.send_fds(self._socket, [b"."], [inlet.reader, *(one.writer for one in outlets), note])
                    await asyncio.get_running_loop().sock_sendall(self._socket, protocol.frame(head))
                except OSError as error:
                    raise CageLost(self._lost(error)) from error
            finally:
                os.close(note)
                inlet.close_reader()
                for outlet in outlets:
                    outlet.close_writer()
            feed = asyncio.create_task(inlet.feed(stdin))
            answer = asyncio.create_task(receive(self._socket))
            feeds.append(feed)
            for task in (*feeds, answer):
                task.add_done_callback(lambda _: changed.set())
            while not answer.done():
                await changed.wait()
                changed.clear()
                for number, outlet in enumerate(outlets):
                    if data := outlet.take():
                        yield Output(data, bool(number))
                while relay and (piece := relay.take()):
                    yield piece
                for fed in feeds:
                    if fed.done():
                        fed.result()
            for number, outlet in enumerate(outlets):
                if data := outlet.rest():
                    yield Output(data, bool(number))
            try:
                head = answer.result()
            except (OSError, EOFError) as error:
                if not self._killed_at_its_limit():
                    raise CageLost(self._lost(error)) from error
                self._up = False
                head = _gone_with_its_memory(self._spec)
            else:
                if self._killed_at_its_limit():
                    head["end"] = ExecEnd.MEMORY.value
            yield head
        finally:
            if relay:
                await relay.stop()
            if answer is not None and not answer.done():
                await asyncio.shield(self._cancel(answer))
            if feed is None:
                inlet.close()
            else:
                feed.cancel()
                await asyncio.wait([feed])
            for outlet in outlets:
                outlet.close()

    async def _cancel(self, answer: "asyncio.Task[dict[str, Any]]") -> None:
        """Kills what runs, and the workspace stays; if that doesn't work, it ends."""
        try:
            await asyncio.get_running_loop().sock_sendall(self._socket, b"." + protocol.frame({"do": "cancel"}))
            await asyncio.wait_for(answer, _CANCEL_GRACE)
        except (OSError, EOFError, TimeoutError):
            self._kill()
            await asyncio.gather(answer, return_exceptions=True)

    def _killed_at_its_limit(self) -> bool:
        """True if the kernel has killed in it since the last call, as it had taken all the memory that it may. Raises
        CageLost where it had not: no verdict about a program comes of a machine that is short of memory."""
        if self._place.cgroup is None:
            return False
        before, self._kills = self._kills, self._place.cgroup.kills()
        if self._kills.count == before.count:
            return False
        if self._kills.at_limit == before.at_limit:
            self._up = False
            raise CageLost("the kernel killed in it because the machine, or the container, is short of memory")
        return True

    def _lost(self, error: Exception) -> str:
        self._up = False
        return "it was ended" if self._stopped else f"its processes ended ({error or type(error).__name__})"

    def _kill(self) -> None:
        self._up = False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._keeper, signal.SIGKILL)

    async def stop(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        # the keeper ends when it's hung up on, once all that it holds is dead; else it's killed
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if not await self._has_ended(_STOP_GRACE):
            self._kill()
            await self._has_ended(_CANCEL_GRACE)
        await asyncio.to_thread(self._remove_traces)
        self._socket.close()
        if self.door:
            self.door.close()
        os.close(self._keeper)
        self._place.release()

    async def _has_ended(self, within: float) -> bool:
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_reader(self._keeper, ended.set)
        try:
            async with asyncio.timeout(within):
                await ended.wait()
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(self._keeper)
        return True

    def _remove_traces(self) -> None:
        if self._place.cgroup is not None and not self._place.cgroup.remove():
            log.warning("workspace.cgroup_left_behind")
        remove_stage(self._place.stage)


def disk_of(limits: WorkspaceLimits) -> tuple[int, int]:
    """Bytes, and files that there may be."""
    return limits.disk_bytes, max(1024, limits.disk_bytes // _INODE)


def remove_stage(stage: str) -> None:
    """Where there's no private root, it's what programs left their files in."""
    if os.path.isdir(stage):
        try:
            scratch.empty(stage)
            os.rmdir(stage)
        except OSError as error:
            log.warning("workspace.folder_left_behind", folder=stage, reason=str(error))


async def _nothing() -> AsyncIterator[bytes]:
    for chunk in tuple[bytes, ...]():
        yield chunk


def _gone_with_its_memory(spec: WorkspaceSpec) -> dict[str, Any]:
    usage = {"cpu": 0.0, "disk": 0, "memory": spec.limits.memory_bytes, "processes": 0}
    return {"end": "memory", "status": -signal.SIGKILL, "cpu": 0.0, "wall": 0.0, "said": "", "usage": usage}


def _exit(answer: dict[str, Any], cut: bool = False) -> Exit:
    """Reads the keeper's answer: only `said` is from the program's process, and ours until the program begins."""
    end = answer["end"]
    used = answer["usage"]
    usage = Usage(timedelta(seconds=used["cpu"]), int(used["disk"]), int(used["memory"]), int(used["processes"]))
    return Exit(
        ExecEnd.WALL if end == "idle" else ExecEnd(end),
        int(answer["status"]),
        timedelta(seconds=answer["cpu"]),
        timedelta(seconds=answer["wall"]),
        usage,
        _reason(answer["said"]),
        cut,
    )


def _reason(said: str) -> str:
    """A frame that says why nothing could be started: see cage/workspace/start.py."""
    with contextlib.suppress(ValueError):
        match json.loads(said.strip() or "null"):
            case ["", "error", str(), str(message)]:
                return message
    return ""


def _moved(answer: dict[str, Any]) -> Exit:
    """Raises InvalidArgument, ResourceExhausted where files could not be moved."""
    moved = _exit(answer)
    if moved.end is ExecEnd.EXITED and moved.status == 0:
        return moved
    if moved.reason.startswith(_FULL) or moved.end is ExecEnd.DISK:
        raise ResourceExhausted("the files do not fit on the workspace's disk")
    if moved.end is not ExecEnd.EXITED:
        raise ResourceExhausted(f"the workspace's limit was reached: {moved.end}")
    raise invalid("files", f"could not be moved: {moved.reason or f'the status is {moved.status}'}")
