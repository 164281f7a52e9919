"""The real executor: lanes, each with a warm zygote that forks one process per program. See cage/zygote.py."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Self

from ratchet_kit import metrics
from ratchet_kit.errors import FailedPrecondition, Unavailable, Unimplemented
from ratchet_kit.logs import get_logger
from sandbox_service.adapters import cgroups, environments, leftovers, protocol, suite
from sandbox_service.adapters.commands import Commands
from sandbox_service.adapters.environments import Environment
from sandbox_service.adapters.toolchains import Toolchains
from sandbox_service.adapters.uids import Uids
from sandbox_service.cage import scratch
from sandbox_service.domain import audit, levels
from sandbox_service.domain.levels import Level
from sandbox_service.domain.ports import Capabilities, CommandJob, End, Job, Report, Stage
from sandbox_service.domain.program import File
from sandbox_service.domain.sandbox import Sandbox

log = get_logger(__name__)
_lost = metrics.counter("sandbox_lanes_lost", "Lanes that ended under a program, which is then tried once more")

_ZYGOTE = Path(__file__).parent.parent / "cage" / "zygote.py"
_START_LIMIT = timedelta(seconds=20)
_ANSWER_GRACE = timedelta(seconds=10)
_STOP_GRACE = timedelta(seconds=0.5)
_LARGE_ANSWER = 64 << 10  # bytes
# Hash order, time zone and locale are the same in every lane. -I would ignore PYTHONHASHSEED, so -s -P take its place.
_FLAGS = ("-s", "-S", "-P", "-B")
_ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "PYTHONUTF8": "1",
    # else each program would look up the functions of libraries anew
    "LD_BIND_NOW": "1",
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


@dataclass(frozen=True, slots=True)
class ZygoteOptions:
    """How lanes are made.

    A program may idle (sleep, wait) for its CPU limit and `idle_extra` more; the bound on the clock is `wall_factor`
    times as much, so that a loaded machine doesn't turn right programs into slow ones.
    `job_uid`: where the uids begin that root's lanes become, one each: see uids.py.
    `runtimes_dir`: a folder of virtual environments, each a runtime of its name: see environments.py.
    `min_level`: below it no lane starts.
    """

    lanes: int
    python: str = sys.executable
    idle_extra: timedelta = timedelta(seconds=1)
    wall_factor: float = 10.0
    max_output_bytes: int = 1 << 20
    max_result_bytes: int = 1 << 20
    job_uid: int = 61000
    min_level: Level = Level.L1
    runtimes_dir: Path | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """What sets lanes apart: the Python environment, and whether programs may start processes."""

    runtime: str
    processes: bool


_PLAIN = Kind("python", processes=False)
# Lanes that are kept, for each job that may run at a time: one of plain Python, and some of other kinds.
_LANES_FOR_EACH = 4


@dataclass(frozen=True, slots=True)
class _Plan:
    """How the lanes of one kind are made. `paths`: what their root shows beside the standard library."""

    environment: Environment
    processes: bool = False
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Answer:
    """What came back, unread: the lane is free before that's done. `size` in bytes."""

    read: Callable[[], Report]
    size: int = 0


class _Lane:
    """One zygote process, started when needed, and thrown away whenever something about it is in doubt."""

    def __init__(self, options: ZygoteOptions, number: int, plan: _Plan, home: cgroups.Home | cgroups.NoCgroup) -> None:
        self._options, self.number, self._plan, self._home = options, number, plan, home
        self._cgroup: cgroups.LaneCgroup | None = None
        self._oom_kills = 0
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
        """Raises Unavailable if the zygote doesn't come up, FailedPrecondition if its level is too low."""
        ours, theirs = socket.socketpair()
        try:
            self._stage = tempfile.mkdtemp(prefix=f"{leftovers.STAGE_PREFIX}{os.getpid()}-")
            no_cgroup = self._make_cgroup()
            with theirs:
                arguments = [
                    str(theirs.fileno()),
                    str(os.getpid()),
                    self._stage,
                    str(self._options.job_uid + self.number),
                ]
                self._process = await asyncio.create_subprocess_exec(
                    self._python,
                    *_FLAGS,
                    str(_ZYGOTE),
                    *arguments,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.PIPE,
                    env=_ENVIRONMENT,
                    cwd="/",
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            if self._cgroup:
                # before it's told its sizes: until then it waits, and forks nothing that would stay outside
                await asyncio.to_thread(self._cgroup.enter, self._process.pid)
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
        self.layers, self.python_version = tuple(hello["layers"]), hello["python"]
        if self._cgroup:
            self._cgroup.settle(scratch.SIZE)
            self.layers += ("cgroup",)
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

    def _setup(self) -> dict[str, object]:
        return {
            "result": self._options.max_result_bytes,
            # a little more than the limit, so that reaching the limit can be seen
            "output": self._options.max_output_bytes + 4096,
            "processes": self._plan.processes,
            "packages": self._plan.environment.packages,
            "warm": self._plan.environment.heavy,
            "paths": self._plan.paths,
        }

    def _make_cgroup(self) -> str:
        """Or says why there's none."""
        try:
            if isinstance(self._home, cgroups.NoCgroup):
                raise self._home
            self._cgroup, self._oom_kills = self._home.make(), 0
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
        members = leftovers.members(self._process.pid)
        return len(members), sum(leftovers.mounts(pid) for pid in members)

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

    async def run(self, job: protocol.Job | protocol.Command, core: int) -> _Answer:
        idle = job.limits.idle_time
        if idle is None:
            idle = job.limits.cpu_time + self._options.idle_extra
        wall = (job.limits.cpu_time + self._options.idle_extra) * self._options.wall_factor
        self.core = core
        asked = protocol.request(job, idle, wall, core)
        try:
            writer = await self._connected()
            if self._cgroup:
                self._cgroup.limit_memory(job.limits.memory_bytes)
            async with asyncio.timeout((wall + _ANSWER_GRACE).total_seconds()):
                writer.write(asked.data)
                await writer.drain()
                head = await self._receive()
                blobs = [await self._reader.readexactly(size) for size in head["blobs"]]
                files = tuple([File(name, await self._reader.readexactly(size)) for name, size in head["files"]])
        except (OSError, EOFError, TimeoutError) as error:
            killed = self._killed_for_memory()
            if not killed:
                _lost.inc()
                log.warning("lane_lost", lane=self.number, error=repr(error), last_words=await self._last_words())
            await self.stop()
            if killed:
                return _Answer(partial(_out_of_memory, self.layers, self.level, job))
            raise Unavailable(f"a sandbox lane was lost: {type(error).__name__}") from error
        except BaseException:
            # cancelled: the program dies with its lane
            await self.stop()
            raise
        if self._killed_for_memory():
            head["end"] = End.MEMORY.value
        read = partial(protocol.report, asked, head, blobs, ",".join(self.layers), self.level, files)
        return _Answer(read, sum(head["blobs"]))

    def _killed_for_memory(self) -> bool:
        """Whether the kernel has done that in this lane since this was last asked."""
        if self._cgroup is None:
            return False
        before, self._oom_kills = self._oom_kills, self._cgroup.oom_kills()
        return self._oom_kills > before

    async def seconds_of_forks(self, count: int) -> float:
        """Raises Unavailable if the lane was lost meanwhile."""
        try:
            writer = await self._connected()
            writer.write(protocol.frame({"mode": "forks", "count": count}))
            return float((await self._receive())["seconds"])
        except (OSError, EOFError) as error:
            await self.stop()
            raise Unavailable(f"a sandbox lane was lost: {type(error).__name__}") from error
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
        """Nothing of the lane is left. The zygote ends when it's hung up on, and takes all along; else it's killed."""
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
            log.warning("cgroup_left_behind", lane=self.number)
        self._remove_stage()

    def _remove_stage(self) -> None:
        """Where there's no private root, it's what the last program left its files in."""
        if os.path.isdir(self._stage):
            try:
                scratch.empty(self._stage)
                os.rmdir(self._stage)
            except OSError as error:
                log.warning("scratch_left_behind", folder=self._stage, error=str(error))


def _out_of_memory(layers: tuple[str, ...], level: Level, job: protocol.Job | protocol.Command) -> Report:
    """Of a job with which the whole lane was killed, so that nobody could tell what it used."""
    return Report(
        end=End.MEMORY,
        exit_status=-signal.SIGKILL,
        stage=Stage.LOADED,
        cpu_time=timedelta(),
        wall_time=timedelta(),
        isolation=",".join(layers),
        level=level,
        max_rss_bytes=job.limits.memory_bytes,
    )


def _cgroup_home() -> cgroups.Home | cgroups.NoCgroup:
    try:
        return cgroups.find()
    except cgroups.NoCgroup as error:
        return error
    except OSError as error:
        return cgroups.NoCgroup(str(error))


class ZygoteExecutor:
    """`async with ZygoteExecutor(options) as executor`: lanes for plain Python are up inside, and all are gone after.

    Lanes of another kind start when first needed. However many there are, `options.lanes` jobs run at a time.
    """

    def __init__(self, options: ZygoteOptions) -> None:
        self._options = options
        self._uids: Uids | None = None
        self._home = _cgroup_home()
        self._ceiling = Level.L3
        self._broken: list[str] = []
        found = [
            environments.standard(options.python),
            *environments.find(options.runtimes_dir),
        ]
        self._environments = {environment.runtime.name: environment for environment in found}
        self._toolchains = Toolchains()
        self._commands = Commands(self._toolchains, self._run_command)
        self._lanes: list[_Lane] = []
        self._free: defaultdict[Kind, list[_Lane]] = defaultdict(list)
        self._gate = asyncio.Semaphore(options.lanes)
        self.lanes_busy = 0
        self._cores = dict.fromkeys(sorted(os.sched_getaffinity(0)), 0)  # how many jobs each runs

    async def __aenter__(self) -> Self:
        """Raises Unavailable if a lane doesn't start, FailedPrecondition if the level is below `min_level`."""
        if isinstance(self._home, cgroups.Home) and (left := self._home.sweep()):
            log.info("cgroups_removed", names=left)
        if os.geteuid() == 0:
            self._uids = Uids(self._options.job_uid)
            self._options = replace(self._options, job_uid=self._uids.first)
        try:
            for _ in range(self._options.lanes):
                lane = await self._new_lane(_PLAIN)
                await lane.start()
                self._free[_PLAIN].append(lane)
            await self._probe()
        except BaseException:
            await self.__aexit__()
            raise
        offered = self.capabilities
        log.info(
            "lanes_ready",
            lanes=offered.lanes,
            level=str(offered.level),
            layers=offered.layers,
            missing=offered.missing,
        )
        return self

    async def _probe(self) -> None:
        """Real attacks on a lane. A level that one of them gets through isn't offered, whatever its layers."""
        sandbox = Sandbox(self, queue_limit=1)
        for attack in suite.attacks():
            if attack.probe and attack.level <= self.capabilities.level:
                finding = await audit.attempt(sandbox, attack)
                if not finding.caught:
                    log.error("attack_got_through", attack=attack.name, verdict=finding.verdict, detail=finding.detail)
                    self._ceiling = Level(attack.level - 1)
                    self._broken.append(f"{attack.level} does not hold: {attack.name}, {finding.detail}")
        if self.capabilities.level < self._options.min_level:
            why = "; ".join([*self._broken, *self.capabilities.missing])
            raise FailedPrecondition(
                f"programs would run at {self.capabilities.level}, and {self._options.min_level} is the least that is "
                f"allowed here: {why}"
            )

    async def leftovers(self) -> list[str]:
        return await asyncio.to_thread(self._leftovers)

    def _leftovers(self) -> list[str]:
        idle = [lane for lanes in self._free.values() for lane in lanes]
        found = [left for lane in idle for left in lane.leftovers()]
        own = {lane.stage for lane in self._lanes}
        found += [f"the folder {stage}" for stage in leftovers.stages(own, Path(tempfile.gettempdir()))]
        if isinstance(self._home, cgroups.Home) and (more := len(self._home.own()) - len(self._lanes)) > 0:
            found.append(f"{more} cgroups that no lane is in")
        return found

    async def __aexit__(self, *_: object) -> None:
        await self._toolchains.stop()
        await asyncio.gather(*(lane.stop() for lane in self._lanes))
        if self._uids:
            self._uids.release()

    @property
    def capabilities(self) -> Capabilities:
        """Of the weakest lane that is up."""
        up = [lane for lane in self._lanes if lane.layers] or self._lanes
        first = min(up, key=lambda lane: (lane.level, len(lane.layers)))
        processes = set(first.layers) >= HOLDS_PROCESSES
        pythons = [replace(found.runtime, version=first.python_version) for found in self._environments.values()]
        languages = self._toolchains.runtimes if processes else []
        return Capabilities(
            first.layers,
            first.python_version,
            self._options.lanes,
            [*pythons, *languages],
            self._toolchains.missing,
            processes,
            min(first.level, self._ceiling),
            [*self._broken, *(str(lack) for lack in levels.lacks(first.layers, first.refused))],
        )

    @property
    def lanes_up(self) -> int:
        return sum(lane.is_up for lane in tuple(self._lanes))

    async def describe(self) -> Capabilities:
        await self._toolchains.ready()
        return self.capabilities

    async def run(self, job: Job) -> Report:
        if isinstance(job, CommandJob):
            return await self._commands.run(job)
        setting = job.setting
        report = await self._run_in(Kind(setting.runtime, setting.processes), job)
        return replace(report, runtime=setting.runtime)

    async def fork_limit(self, count: int) -> float:
        each = count // self._options.lanes
        lanes = self._lanes[: self._options.lanes]  # those of plain Python, up since the start
        async with contextlib.AsyncExitStack() as gates:
            for _ in lanes:
                await gates.enter_async_context(self._gate)
            seconds = await asyncio.gather(*(lane.seconds_of_forks(each) for lane in lanes))
        return each * len(lanes) / max(seconds)

    async def _run_command(self, command: protocol.Command) -> Report:
        return await self._run_in(Kind("python", processes=True), command)

    async def _run_in(self, kind: Kind, job: protocol.Job | protocol.Command) -> Report:
        async with self._gate:
            free = self._free[kind]
            lane = free.pop() if free else await self._new_lane(kind)
            self.lanes_busy += 1
            # the core with the fewest jobs, and where there are several the lane's own
            core = min(self._cores, key=lambda core: (self._cores[core], core != lane.core))
            self._cores[core] += 1
            try:
                answer = await lane.run(job, core)
            finally:
                self._cores[core] -= 1
                self.lanes_busy -= 1
                free.append(lane)
        await asyncio.sleep(0)  # whoever waits for the lane sends it the next program first
        # what a program answers may take long to read, and others wait meanwhile
        report = await asyncio.to_thread(answer.read) if answer.size > _LARGE_ANSWER else answer.read()
        return report if report.level <= self._ceiling else replace(report, level=self._ceiling)

    async def _new_lane(self, kind: Kind) -> _Lane:
        """Raises Unimplemented if there's no such runtime."""
        if len(self._lanes) >= _LANES_FOR_EACH * self._options.lanes:
            await self._give_up_a_lane()
        environment = self._environments.get(kind.runtime)
        if environment is None:
            there = ", ".join(self._environments)
            raise Unimplemented(f"runtime {kind.runtime!r} is not on this node; it has {there}")
        paths: tuple[str, ...] = ()
        if kind.processes:
            await self._toolchains.ready()
            # its own interpreter, for subprocess and multiprocessing
            paths = (*self._toolchains.paths, environment.python)
        number = next(number for number in itertools.count() if number not in {lane.number for lane in self._lanes})
        lane = _Lane(self._options, number, _Plan(environment, kind.processes, paths), self._home)
        self._lanes.append(lane)
        return lane

    async def _give_up_a_lane(self) -> None:
        """One that's idle, and not for plain Python."""
        for kind, free in self._free.items():
            if free and kind != _PLAIN:
                lane = free.pop(0)
                await lane.stop()
                self._lanes.remove(lane)
                return
