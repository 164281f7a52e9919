"""The real executor: lanes, each with a warm zygote that forks one process per program. See cage/zygote.py."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from ratchet_kit.errors import FailedPrecondition, Unavailable, Unimplemented
from ratchet_kit.logs import get_logger
from sandbox_service.adapters import environments, protocol
from sandbox_service.adapters.commands import Commands
from sandbox_service.adapters.environments import Environment
from sandbox_service.adapters.toolchains import Toolchains
from sandbox_service.cage import scratch
from sandbox_service.domain.ports import Capabilities, CommandJob, Job, Report
from sandbox_service.domain.program import File

log = get_logger(__name__)

_ZYGOTE = Path(__file__).parent.parent / "cage" / "zygote.py"
_START_LIMIT = timedelta(seconds=20)
_ANSWER_GRACE = timedelta(seconds=10)
_LARGE_ANSWER = 64 << 10  # bytes
# Hash order, time zone and locale are the same in every lane. -I would ignore PYTHONHASHSEED, so -s -P take its place.
_FLAGS = ("-s", "-S", "-P", "-B")
_ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "PYTHONUTF8": "1",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    # a program has one core, and its results don't depend on how many there are
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/tmp",
}
# Without these, programs that start processes could get away, or be told from others.
HOLDS_PROCESSES = frozenset({"pid-ns", "net-ns", "private-root", "seccomp"})

# A protection, and the layers of which any one gives it.
PROTECTIONS: dict[str, frozenset[str]] = {
    "network": frozenset({"net-ns", "seccomp"}),
    "files": frozenset({"private-root", "landlock"}),
    "processes": frozenset({"pid-ns", "seccomp"}),
    "privileges": frozenset({"no-new-privs"}),
}


@dataclass(frozen=True, slots=True)
class ZygoteOptions:
    """How lanes are made.

    A program may idle (sleep, wait) for its CPU limit and `idle_extra` more; the bound on the clock is `wall_factor`
    times as much, so that a loaded machine doesn't turn right programs into slow ones.
    `job_uid`: what root becomes in lane 0; lane n takes job_uid + n.
    `runtimes_dir`: a folder of virtual environments, each a runtime of its name, less `runtimes_prefix`.
    `allow_missing`: protections (keys of PROTECTIONS) without which the service may start all the same.
    """

    lanes: int
    python: str = sys.executable
    idle_extra: timedelta = timedelta(seconds=1)
    wall_factor: float = 10.0
    max_output_bytes: int = 1 << 20
    max_result_bytes: int = 1 << 20
    job_uid: int = 61000
    allow_missing: frozenset[str] = frozenset()
    runtimes_dir: Path | None = None
    runtimes_prefix: str = "sandbox-"


@dataclass(frozen=True, slots=True)
class Kind:
    """What sets lanes apart: the Python environment, and whether programs may start processes."""

    runtime: str
    processes: bool


@dataclass(frozen=True, slots=True)
class _Plan:
    """How the lanes of one kind are made. `paths`: what their root shows beside the standard library."""

    environment: Environment
    processes: bool = False
    paths: tuple[str, ...] = ()


class _Lane:
    """One zygote process, started when needed, and thrown away whenever something about it is in doubt."""

    def __init__(self, options: ZygoteOptions, number: int, plan: _Plan) -> None:
        self._options, self._number, self._plan = options, number, plan
        self._python = plan.environment.python
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None
        self._stage = ""
        self.layers: tuple[str, ...] = ()
        self.refused = ""
        self.python_version = ""

    async def start(self) -> None:
        """Raises Unavailable if the zygote doesn't come up, FailedPrecondition if it lacks a protection."""
        ours, theirs = socket.socketpair()
        try:
            self._stage = tempfile.mkdtemp(prefix="ratchet-sandbox-")
            with theirs:
                arguments = [
                    str(theirs.fileno()),
                    str(os.getpid()),
                    self._stage,
                    str(self._options.job_uid + self._number),
                ]
                self._process = await asyncio.create_subprocess_exec(
                    self._python,
                    *_FLAGS,
                    str(_ZYGOTE),
                    *arguments,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.PIPE,
                    env=self._environment(),
                    cwd="/",
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            self._reader, self._writer = await asyncio.open_unix_connection(sock=ours)
            self._writer.write(protocol.frame(self._setup()))
            async with asyncio.timeout(_START_LIMIT.total_seconds()):
                hello = await self._receive()
        except (OSError, EOFError, TimeoutError) as error:
            complaint = await self._last_words()
            ours.close()
            await self.stop()
            raise Unavailable(f"a sandbox lane did not start: {complaint or error}") from error
        if "lacking" in hello:
            await self.stop()
            raise FailedPrecondition(hello["lacking"])
        self.layers, self.refused, self.python_version = tuple(hello["layers"]), hello["refused"], hello["python"]
        try:
            self._demand_protections()
        except FailedPrecondition:
            await self.stop()
            raise
        if "private-root" in self.layers:
            # built upon, and nowhere mounted since: so that even a service killed by SIGKILL leaves no folder
            os.rmdir(self._stage)

    def _environment(self) -> dict[str, str]:
        packages = self._plan.environment.packages
        # for the Pythons that a program starts
        return {**_ENVIRONMENT, "PYTHONPATH": packages} if packages and self._plan.processes else _ENVIRONMENT

    def _setup(self) -> dict[str, object]:
        packages = self._plan.environment.packages
        paths = [packages] if packages else []
        return {
            "result": self._options.max_result_bytes,
            # a little more than the limit, so that reaching the limit can be seen
            "output": self._options.max_output_bytes + 4096,
            "processes": self._plan.processes,
            "packages": packages,
            "warm": self._plan.environment.heavy,
            "paths": [*paths, *self._plan.paths],
        }

    def _demand_protections(self) -> None:
        for name, layers in PROTECTIONS.items():
            if name not in self._options.allow_missing and not layers & set(self.layers):
                raise FailedPrecondition(
                    f"programs would have no limits to their {name} here: that takes {' or '.join(sorted(layers))} "
                    f"({self.refused or 'none is supported'}). Allow this process user namespaces or seccomp, or "
                    f"accept the risk with RATCHET_SANDBOX_ALLOW_MISSING"
                )

    async def run(self, job: protocol.Job | protocol.Command) -> Report:
        idle = job.limits.cpu_time + self._options.idle_extra
        wall = idle * self._options.wall_factor
        asked = protocol.request(job, idle, wall)
        try:
            writer = await self._connected()
            async with asyncio.timeout((wall + _ANSWER_GRACE).total_seconds()):
                writer.write(asked.data)
                await writer.drain()
                head = await self._receive()
                blobs = [await self._reader.readexactly(size) for size in head["blobs"]]
                files = tuple([File(name, await self._reader.readexactly(size)) for name, size in head["files"]])
        except (OSError, EOFError, TimeoutError) as error:
            log.warning("lane_lost", lane=self._number, error=repr(error))
            await self.stop()
            raise Unavailable(f"a sandbox lane was lost: {type(error).__name__}") from error
        except BaseException:
            # cancelled: the program dies with its lane
            await self.stop()
            raise
        isolation = ",".join(self.layers)
        if sum(head["blobs"]) > _LARGE_ANSWER:
            # what a program answers may take long to read, and others wait meanwhile
            return await asyncio.to_thread(protocol.report, asked, head, blobs, isolation, files)
        return protocol.report(asked, head, blobs, isolation, files)

    async def _connected(self) -> asyncio.StreamWriter:
        if self._writer is None or self._process is None or self._process.returncode is not None:
            await self.stop()
            await self.start()
        assert self._writer is not None
        return self._writer

    async def _receive(self) -> dict[str, Any]:
        (length,) = protocol.LENGTH.unpack(await self._reader.readexactly(protocol.LENGTH.size))
        message: dict[str, Any] = json.loads(await self._reader.readexactly(length))
        return message

    async def _last_words(self) -> str:
        if self._process is None or self._process.stderr is None:
            return ""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        return (await self._process.stderr.read()).decode("utf-8", "replace").strip()[-500:]

    async def stop(self) -> None:
        """Nothing of the lane is left: its session is killed, and pid 1 of its namespace takes every program along."""
        process, self._process = self._process, None
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        await asyncio.to_thread(self._remove_stage)

    def _remove_stage(self) -> None:
        """Where there's no private root, it's what the last program left its files in."""
        if os.path.isdir(self._stage):
            try:
                scratch.empty(self._stage)
                os.rmdir(self._stage)
            except OSError as error:
                log.warning("scratch_left_behind", folder=self._stage, error=str(error))


class ZygoteExecutor:
    """`async with ZygoteExecutor(options) as executor`: lanes for plain Python are up inside, and all are gone after.

    Lanes of another kind start when first needed. However many there are, `options.lanes` jobs run at a time.
    """

    def __init__(self, options: ZygoteOptions) -> None:
        self._options = options
        found = [
            environments.standard(options.python),
            *environments.found_in(options.runtimes_dir, options.runtimes_prefix),
        ]
        self._environments = {environment.runtime.name: environment for environment in found}
        self._toolchains = Toolchains()
        self._commands = Commands(self._toolchains, self._run_command)
        self._lanes: list[_Lane] = []
        self._free: defaultdict[Kind, list[_Lane]] = defaultdict(list)
        self._gate = asyncio.Semaphore(options.lanes)

    async def __aenter__(self) -> Self:
        """Raises Unavailable if a lane doesn't start, FailedPrecondition if it lacks a protection that is demanded."""
        try:
            plain = Kind("python", processes=False)
            for _ in range(self._options.lanes):
                lane = await self._new_lane(plain)
                await lane.start()
                self._free[plain].append(lane)
        except BaseException:
            await self.__aexit__()
            raise
        first = self._lanes[0]
        log.info("lanes_ready", lanes=self._options.lanes, layers=first.layers, no_namespaces=first.refused)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._toolchains.stop()
        await asyncio.gather(*(lane.stop() for lane in self._lanes))

    @property
    def capabilities(self) -> Capabilities:
        first = self._lanes[0]
        processes = first.layers and set(first.layers) >= HOLDS_PROCESSES
        pythons = [replace(found.runtime, version=first.python_version) for found in self._environments.values()]
        languages = self._toolchains.runtimes if processes else []
        return Capabilities(
            first.layers,
            first.python_version,
            self._options.lanes,
            [*pythons, *languages],
            self._toolchains.missing,
            bool(processes),
        )

    async def describe(self) -> Capabilities:
        await self._toolchains.ready()
        return self.capabilities

    async def run(self, job: Job) -> Report:
        if isinstance(job, CommandJob):
            return await self._commands.run(job)
        setting = job.setting
        report = await self._run_in(Kind(setting.runtime, setting.processes), job)
        return replace(report, runtime=setting.runtime)

    async def _run_command(self, command: protocol.Command) -> Report:
        return await self._run_in(Kind("python", processes=True), command)

    async def _run_in(self, kind: Kind, job: protocol.Job | protocol.Command) -> Report:
        async with self._gate:
            free = self._free[kind]
            lane = free.pop() if free else await self._new_lane(kind)
            try:
                return await lane.run(job)
            finally:
                free.append(lane)

    async def _new_lane(self, kind: Kind) -> _Lane:
        """Raises Unimplemented if there's no such runtime."""
        environment = self._environments.get(kind.runtime)
        if environment is None:
            there = ", ".join(self._environments)
            raise Unimplemented(f"runtime {kind.runtime!r} is not on this node; it has {there}")
        paths: tuple[str, ...] = ()
        if kind.processes:
            await self._toolchains.ready()
            # its own interpreter, for subprocess and multiprocessing
            paths = (*self._toolchains.paths, environment.python)
        lane = _Lane(self._options, len(self._lanes), _Plan(environment, kind.processes, paths))
        self._lanes.append(lane)
        return lane
