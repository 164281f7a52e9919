"""One lane as the service sees it: a keeper, its zygote, the program of the moment. See cage/__init__.py."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from ratchet_kit import metrics
from ratchet_kit.errors import FailedPrecondition, Unavailable
from ratchet_kit.logs import get_logger
from sandbox_service.adapters.lanes import cgroups, cleanup, protocol
from sandbox_service.adapters.lanes.options import ANSWERS, MOST_OUTPUT, LaneOptions, Plan
from sandbox_service.cage.lane import scratch
from sandbox_service.domain import levels
from sandbox_service.domain.jobs import CallJob, CheckJob, Command, End, Raised, Report, Stage
from sandbox_service.domain.levels import Level
from sandbox_service.domain.program import MAX_OUTPUT_BYTES, File

log = get_logger(__name__)
_lost = metrics.counter("sandbox_lanes_lost", "Lanes that ended under a program, which is then tried once more")

CAGE = Path(__file__).parents[2] / "cage"
_LARGE = 1 << 15  # bytes: what is larger is read and written where it can hold up nobody
_ANSWER_GRACE = timedelta(seconds=10)
_KEEPERS_NICE = -10
_STOP_GRACE = timedelta(seconds=0.5)
# Hash order, time zone and locale are the same in every lane. -I would ignore PYTHONHASHSEED, so -s -P take its place.
FLAGS = ("-s", "-S", "-P", "-B")
ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "PYTHONUTF8": "1",
    # as judges do, whose Python has no limit of 4,300; with one, since no time limit ends a conversion early
    "PYTHONINTMAXSTRDIGITS": "200000",
    # else each program would look up the functions of libraries anew
    "LD_BIND_NOW": "1",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "PATH": "/usr/local/bin:/usr/bin:/bin:/names",  # the last: see cage/lane/root.py
    # a program has one core, and its results don't depend on how many there are
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/tmp",
}


class LaneLost(Unavailable):
    """A lane ended under a job."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"a sandbox lane was lost: {reason}")
        self.reason = reason


class ShortOfMemory(Unavailable):
    """The kernel killed processes of a job whose lane was not at its own limit."""

    def __init__(self) -> None:
        super().__init__("the kernel killed the program because the machine, or the container, is short of memory")


class Lane:
    """One keeper process, started when needed, and thrown away whenever something about it is in doubt."""

    def __init__(self, options: LaneOptions, number: int, plan: Plan, home: cgroups.Home | cgroups.NoCgroup) -> None:
        self._options, self.number, self._plan, self._home = options, number, plan, home
        self._cgroup: cgroups.LaneCgroup | None = None
        self._kills = cgroups.Kills()
        self._at_rest = (0, 0)
        self._python = plan.environment.python
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None
        self._stage = ""
        self.core = -1  # the one that its last job ran on
        self.layers: tuple[str, ...] = ()
        self.refused: dict[str, str] = {}
        self.level = Level.NONE
        self.python_version = ""

    async def start(self) -> None:
        """Raises Unavailable if the keeper doesn't come up, FailedPrecondition if its level is too low."""
        ours, theirs = socket.socketpair()
        try:
            self._stage = tempfile.mkdtemp(prefix=f"{cleanup.STAGE_PREFIX}{os.getpid()}-")
            no_cgroup = self._make_cgroup()
            cpu_usage = self._cgroup.cpu_usage if self._cgroup else -1
            with theirs:
                arguments = [
                    str(theirs.fileno()),
                    str(os.getpid()),
                    self._stage,
                    str(self._options.job_uid + self.number),
                ]
                self._process = await asyncio.create_subprocess_exec(
                    self._python,
                    *FLAGS,
                    str(CAGE / "lane" / "enter.py"),
                    *arguments,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.PIPE,
                    env=ENVIRONMENT,
                    cwd="/",
                    pass_fds=(theirs.fileno(), *([cpu_usage] if cpu_usage >= 0 else [])),
                    start_new_session=True,
                )
            if self._cgroup:
                # before it gets its setup: until then it waits, and forks nothing that would stay outside
                await asyncio.to_thread(self._cgroup.enter, self._process.pid)
            self._reader, self._writer = await asyncio.open_unix_connection(sock=ours)
            self._writer.write(protocol.frame(self._setup(cpu_usage)))
            async with asyncio.timeout(protocol.START_LIMIT):
                hello = await self._receive()
        except (OSError, EOFError, TimeoutError) as error:
            complaint = await self._last_words()
            ours.close()
            await self.stop()
            raise Unavailable(f"a sandbox lane did not start: {complaint or error}") from error
        if "lacking" in hello:
            await self.stop()
            raise FailedPrecondition(hello["lacking"])
        self.layers, self.python_version = tuple(hello["layers"]), hello["python"]
        if self._cgroup:
            self._cgroup.settle(scratch.SIZE + ANSWERS * self._options.max_result_bytes)
            self.layers += ("cgroup",)
        if os.geteuid() == 0:
            with contextlib.suppress(OSError):
                # its keeper, no program: it looks in time, however many of these are busy
                os.setpriority(os.PRIO_PROCESS, self._process.pid, _KEEPERS_NICE)
        self.refused = dict.fromkeys((*levels.NAMESPACES, "private-root"), hello["refused"]) if hello["refused"] else {}
        self.refused |= {"cgroup": no_cgroup} if no_cgroup else {}
        self.level = levels.level_of(self.layers)
        try:
            self._demand_level()
        except FailedPrecondition:
            await self.stop()
            raise
        if "private-root" in self.layers:
            # built upon, and nowhere mounted since: so that even a service killed by SIGKILL leaves no folder
            os.rmdir(self._stage)
        self._at_rest = await asyncio.to_thread(self._census)

    def _setup(self, cpu_usage: int) -> dict[str, object]:
        return {
            "cpu_usage": cpu_usage,
            "cgroup": self._cgroup is not None,
            # a little more than the limits, so that reaching them can be seen
            "result": ANSWERS * self._options.max_result_bytes + 4096,
            "output": MOST_OUTPUT + 4096,
            "processes": self._plan.processes,
            "packages": self._plan.environment.packages,
            "warm": self._plan.environment.heavy,
            "paths": self._plan.paths,
        }

    def _make_cgroup(self) -> str:
        """Returns the reason if there is none."""
        try:
            if isinstance(self._home, cgroups.NoCgroup):
                raise self._home
            self._cgroup, self._kills = self._home.make(), cgroups.Kills()
        except cgroups.NoCgroup as error:
            return str(error)
        return ""

    def _demand_level(self) -> None:
        least = self._options.min_level
        if self.level < least:
            lacks = "; ".join(str(lack) for lack in levels.lacks(self.layers, self.refused, least))
            raise FailedPrecondition(f"programs would run below {least}, the least that is allowed here: {lacks}")

    def _census(self) -> tuple[int, int]:
        """How many processes the lane has, and how many mounts they see."""
        if self._process is None:
            return self._at_rest
        members = cleanup.members(self._process.pid)
        return len(members), sum(cleanup.mounts(pid) for pid in members)

    def leftovers(self) -> list[str]:
        """Of an idle lane."""
        processes, mounts = self._census()
        found = []
        if processes > self._at_rest[0]:
            found.append(f"lane {self.number} has {processes} processes, at rest {self._at_rest[0]}")
        elif mounts > self._at_rest[1]:
            found.append(f"lane {self.number} has {mounts} mounts, at rest {self._at_rest[1]}")
        return found

    @property
    def stage(self) -> str:
        return self._stage

    @property
    def is_up(self) -> bool:
        process = self._process
        return process is not None and process.returncode is None

    async def run(self, job: protocol.Job | Command, core: int, compiled: bytes = b"") -> Callable[[], Report]:
        """What reads the answer: the lane is free before that's done. `compiled`: see protocol.request.

        Raises LaneLost when the lane ended under the job, ShortOfMemory, Unavailable when none could be started for it.
        """
        idle = job.limits.idle_time
        if idle is None:
            idle = job.limits.cpu_time + self._options.idle_extra
        wall = (job.limits.cpu_time + self._options.idle_extra) * self._options.wall_factor
        self.core = core
        make = partial(protocol.request, job, idle, wall, core, self._options.max_result_bytes, compiled)
        large = (job.size if isinstance(job, CallJob) else len(getattr(job, "stdin", ""))) > _LARGE
        request = await asyncio.to_thread(make) if large else make()
        try:
            writer = await self._connected()
            if self._cgroup:
                # tests have a process of their own, and as much memory for it
                memory = job.limits.memory_bytes * (2 if isinstance(job, CheckJob) else 1)
                output = max(0, job.limits.output_bytes - MAX_OUTPUT_BYTES)  # the keeper holds it
                self._cgroup.limit_memory(memory + 2 * output)
            async with asyncio.timeout((wall + _ANSWER_GRACE).total_seconds()):
                writer.write(request.data)
                await writer.drain()
                head = await self._receive()
                data = await self._reader.readexactly(sum(head["blobs"]))
                files = tuple([File(name, await self._reader.readexactly(size)) for name, size in head["files"]])
        except (OSError, EOFError, TimeoutError) as error:
            try:
                at_limit = self._killed_at_its_limit()
                words = "" if at_limit else await self._last_words()
            finally:
                await self.stop()
            if at_limit:
                return partial(ended_with_its_lane, End.MEMORY, self.layers, self.level, job)
            _lost.inc()
            log.warning("lane.lost", lane=self.number, reason=repr(error), last_words=words)
            raise LaneLost(words or type(error).__name__) from error
        except BaseException:
            # cancelled: the program dies with its lane
            await self.stop()
            raise
        if self._killed_at_its_limit():
            head["end"] = End.MEMORY.value
        sent = replace(request, data=b"")
        if len(data) <= _LARGE or request.command:
            return partial(protocol.report, sent, head, data, self.layers, self.level, files)
        return partial(protocol.unread, sent, head, data, self.layers, self.level, files)

    def _killed_at_its_limit(self) -> bool:
        """Whether the kernel has killed for memory in this lane since the last call.

        Raises ShortOfMemory where the lane had not taken what it may."""
        if self._cgroup is None:
            return False
        before, self._kills = self._kills, self._cgroup.kills()
        if self._kills.count == before.count:
            return False
        if self._kills.at_limit == before.at_limit:
            raise ShortOfMemory
        return True

    async def seconds_of_forks(self, count: int) -> float:
        """Raises Unavailable if the lane was lost meanwhile."""
        try:
            writer = await self._connected()
            writer.write(protocol.frame({"mode": "forks", "count": count}))
            return float((await self._receive())["seconds"])
        except (OSError, EOFError) as error:
            await self.stop()
            raise LaneLost(type(error).__name__) from error
        except BaseException:
            await self.stop()
            raise

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
        """Nothing of the lane is left. The keeper ends when it's hung up on, and takes all along; else it's killed."""
        process, self._process = self._process, None
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        if process is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_GRACE.total_seconds() if writer else 0):
                    await process.wait()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        await asyncio.to_thread(self._remove_traces)

    def _remove_traces(self) -> None:
        cgroup, self._cgroup = self._cgroup, None
        if cgroup is not None and not cgroup.remove():
            log.warning("lane.cgroup_left_behind", lane=self.number)
        self._remove_stage()

    def _remove_stage(self) -> None:
        """Where there's no private root, it's what the last program left its files in."""
        if os.path.isdir(self._stage):
            try:
                scratch.empty(self._stage)
                os.rmdir(self._stage)
            except OSError as error:
                log.warning("lane.scratch_left_behind", folder=self._stage, reason=str(error))


def ended_with_its_lane(
    end: End, layers: tuple[str, ...], level: Level, job: protocol.Job | Command, error: Raised | None = None
) -> Report:
    """Of a job that took its whole lane along, so that what it used is not known."""
    return Report(
        end=end,
        exit_status=-signal.SIGKILL,
        stage=Stage.LOADED,
        cpu_time=timedelta(),
        wall_time=timedelta(),
        layers=layers,
        level=level,
        max_rss_bytes=job.limits.memory_bytes if end is End.MEMORY else 0,
        error=error,
        runtime=job.setting.runtime,
    )
