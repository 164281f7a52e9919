"""Where cases of workspaces run, each at every level that it is claimed for: by test_workspaces, in a process of its
own for each level. `--deny-namespaces` first takes unshare and mount away, as Docker's default profile does.
"""

import asyncio
import io
import json
import os
import sys
import tarfile
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psutil

from ratchet_kit import logs
from ratchet_kit.errors import RatchetError
from ratchet_kit.times import SystemClock
from ratchet_testing import weaker
from ratchet_testing.processes import children
from sandbox_service.adapters.lanes.options import LaneOptions
from sandbox_service.adapters.workspaces.cages import WorkspaceCages
from sandbox_service.adapters.workspaces.nursery import Nursery
from sandbox_service.domain.levels import Level
from sandbox_service.domain.workspace import Command, ExecEnd, Exit, Output, WorkspaceLimits, WorkspaceSpec
from sandbox_service.domain.workspaces import Workspaces

MIB = 1 << 20
LIMITS = WorkspaceLimits(timedelta(seconds=60), 256 * MIB, 32, 16 * MIB, timedelta(minutes=10))
LEASE = timedelta(minutes=5)
MOST = 1024 * MIB
IMAGES = Path(os.environ.get("CASES_IMAGES", "/nonexistent"))


@dataclass(frozen=True, slots=True)
class Done:
    exit: Exit
    out: str
    err: str

    @property
    def passed(self) -> bool:
        return self.exit.end is ExecEnd.EXITED and self.exit.status == 0


class Lab:
    def __init__(self, cages: WorkspaceCages, level: Level) -> None:
        self.workspaces, self._cages = Workspaces(cages, SystemClock(), MOST), cages
        self.level = level

    async def new(
        self, lease: timedelta = LEASE, keep: bool = False, limits: WorkspaceLimits = LIMITS, runtime: str = "python"
    ) -> str:
        made = await self.workspaces.create(WorkspaceSpec(runtime, limits, keep), lease, "me")
        assert made.level is self.level, made
        return made.id

    async def python(self, id: str, source: str, *more: str, stdin: bytes = b"", **options: object) -> Done:
        return await self.run(id, ("python", "-c", source, *more), stdin, **options)

    async def run(self, id: str, argv: tuple[str, ...], stdin: bytes = b"", **options: object) -> Done:
        command = Command(argv, **options)  # type: ignore[arg-type]
        out = {False: b"", True: b""}
        async for event in self.workspaces.exec(id, command, chunks(stdin), "me"):
            if isinstance(event, Exit):
                return Done(event, out[False].decode(), out[True].decode())
            assert isinstance(event, Output)
            out[event.error] += event.data
        raise AssertionError("no exit")

    async def must(self, id: str, source: str, *more: str) -> str:
        done = await self.python(id, source, *more)
        assert done.passed, done
        return done.out

    async def write(self, id: str, *entries: tarfile.TarInfo, folder: str = "") -> None:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for entry in entries:
                archive.addfile(entry, io.BytesIO(b"x" * entry.size))
        await self.workspaces.write(id, folder, chunks(packed.getvalue()), "me")

    async def read(self, id: str, *names: str) -> dict[str, tarfile.TarInfo]:
        packed = b"".join([chunk async for chunk in self.workspaces.read(id, names, "me")])
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            return {entry.name: entry for entry in archive}

    async def refuses(self, asked: Awaitable[object], error: type[RatchetError]) -> RatchetError:
        try:
            await asked
        except error as refused:
            return refused
        raise AssertionError(f"no {error.__name__}")

    def nursery(self) -> Nursery:
        return self._cages._nurseries["python"]

    async def settle(self) -> list[psutil.Process]:
        """All processes below this one, unless they are as many as without any workspace, within a while."""
        until = time.monotonic() + 5
        while True:
            left = [each for each in children(recursive=True) if not _is_nursery(each)]
            if len(left) == 2 * self._cages.waiting:  # a keeper and its pid 1 each
                return []
            if time.monotonic() > until:
                return left
            await asyncio.sleep(0.02)


def _is_nursery(process: psutil.Process) -> bool:
    """Or ended."""
    try:
        return process.ppid() == os.getpid()
    except psutil.NoSuchProcess:
        return True


def programs() -> list[psutil.Process]:
    """Those of all workspaces: below pid 1 of each, which is below its keeper, below the nursery."""
    inits = [init for nursery in children() for keeper in _below(nursery) for init in _below(keeper)]
    return [program for init in inits for program in _below(init, recursive=True)]


def _below(process: psutil.Process, recursive: bool = False) -> list[psutil.Process]:
    """None where it has ended meanwhile."""
    try:
        return process.children(recursive)
    except psutil.NoSuchProcess:
        return []


async def chunks(*data: bytes) -> AsyncIterator[bytes]:
    for some in data:
        yield some


def entry(name: str, size: int = 1, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.size, made.type, made.linkname = (size if kind == tarfile.REGTYPE else 0), kind, link
    return made


CASES: dict[str, tuple[Level, Callable[[Lab], Awaitable[None]]]] = {}


def case(level: Level = Level.L1) -> Callable[[Callable[[Lab], Awaitable[None]]], None]:
    """`level`: the least that it is claimed for."""

    def add(function: Callable[[Lab], Awaitable[None]]) -> None:
        CASES[function.__name__] = level, function

    return add


def run() -> None:
    if "--deny-namespaces" in sys.argv:
        weaker.deny(weaker.UNSHARE, weaker.MOUNT)
    asyncio.run(_run())


async def _run() -> None:
    logs.configure("sandbox", "ERROR")
    results: dict[str, str] = {}
    level, only = Level[sys.argv[1]], [word for word in sys.argv[2:] if word in CASES]
    async with WorkspaceCages(LaneOptions(lanes=1, min_level=level, images=IMAGES)) as cages:
        for name, (least, function) in CASES.items():
            if level < least or (only and name not in only):
                continue
            lab = Lab(cages, level)
            try:
                try:
                    async with asyncio.timeout(60):
                        await function(lab)
                finally:
                    for one in (await lab.workspaces.page(0, "", "me")).items:
                        await lab.workspaces.delete(one.id, "me")
                assert not (left := await lab.settle()), left
                results[name] = ""
            except (Exception, asyncio.CancelledError):  # noqa: BLE001
                results[name] = traceback.format_exc()
    print(json.dumps(results))
