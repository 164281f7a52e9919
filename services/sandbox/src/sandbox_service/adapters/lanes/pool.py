"""The real executor: lanes of every kind that programs need, each running one program at a time. See lane.py."""

import asyncio
import compileall
import contextlib
import itertools
import os
import tempfile
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Self

from ratchet_kit import memory, metrics
from ratchet_kit.errors import FailedPrecondition, Unimplemented
from ratchet_kit.logs import get_logger
from sandbox_service.adapters import attack_suite
from sandbox_service.adapters.lanes import cgroups, cleanup, protocol
from sandbox_service.adapters.lanes.compiled import CompiledTests
from sandbox_service.adapters.lanes.lane import CAGE, Lane, LaneLost, ShortOfMemory, ended_with_its_lane
from sandbox_service.adapters.lanes.options import LaneOptions, Plan
from sandbox_service.adapters.lanes.uids import Uids
from sandbox_service.adapters.languages import environments
from sandbox_service.adapters.languages.commands import Commands
from sandbox_service.adapters.languages.toolchains import Toolchains
from sandbox_service.domain import audit, levels
from sandbox_service.domain.capabilities import Capabilities
from sandbox_service.domain.jobs import CallJob, Command, CommandJob, End, Job, Raised, Report, Setting
from sandbox_service.domain.levels import Level
from sandbox_service.domain.program import Limits
from sandbox_service.domain.sandbox import Sandbox

log = get_logger(__name__)
_again = metrics.counter("sandbox_jobs_killed", "Runs that somebody ended by a signal, or with their lane: tried again")

# Without these, programs that start processes could get away, or be recognised by others.
HOLDS_PROCESSES = frozenset({"pid-ns", "net-ns", "private-root", "seccomp"})


@dataclass(frozen=True, slots=True)
class Kind:
    """What sets lanes apart: the Python environment, and whether programs may start processes."""

    runtime: str
    processes: bool


_PLAIN = Kind("python", processes=False)
_ATTEMPTS = 3
_RELIEF = 0.5  # seconds, after which a machine that was short of memory may have some
# Lanes that are kept, for each job that may run at a time: one of plain Python, and some of other kinds.
_LANES_FOR_EACH = 4


class LanePool:
    """`async with LanePool(options) as executor`: lanes for plain Python are up inside, and all are gone after.

    Lanes of another kind start when first needed. However many there are, `options.lanes` jobs run at a time.
    """

    def __init__(self, options: LaneOptions) -> None:
        self._options = options
        self._uids: Uids | None = None
        self._home = cgroups.find_or_reason()
        self._ceiling = Level.L3
        self._broken: list[str] = []
        found = [
            environments.standard(options.python),
            *environments.find(options.runtimes_dir),
        ]
        self._environments = {environment.runtime.name: environment for environment in found}
        self._toolchains = Toolchains()
        self._commands = Commands(self._toolchains, self._run_command)
        self._compiled = CompiledTests()
        self._lanes: list[Lane] = []
        self._free: defaultdict[Kind, list[Lane]] = defaultdict(list)
        self._gate = asyncio.Semaphore(options.lanes)
        self.lanes_busy = 0
        self._cores = dict.fromkeys(sorted(os.sched_getaffinity(0)), 0)  # how many jobs each runs

    async def __aenter__(self) -> Self:
        """Raises Unavailable if a lane doesn't start, FailedPrecondition if the level is below `min_level`."""
        if isinstance(self._home, cgroups.Home) and (left := self._home.sweep()):
            log.info("cgroups.removed", names=left)
        if os.geteuid() == 0:
            self._uids = Uids(self._options.job_uid)
            self._options = replace(self._options, job_uid=self._uids.first)
        # so that no lane has to, which would keep what compiling leaves in memory
        await asyncio.to_thread(compileall.compile_dir, CAGE, quiet=2)
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
            "lanes.ready",
            lanes=offered.lanes,
            isolation=str(offered.level),  # "level" is the line's own
            layers=offered.layers,
            missing=offered.missing,
        )
        return self

    async def _probe(self) -> None:
        """Real attacks on a lane. A level that one of them gets through isn't offered, whatever its layers."""
        sandbox = Sandbox(self, queue_limit=1)
        for attack in attack_suite.attacks():
            if attack.probe and attack.level <= self.capabilities.level:
                finding = await audit.attempt(sandbox, attack)
                if not finding.good:
                    log.error("attack.got_through", attack=attack.name, verdict=finding.verdict, detail=finding.detail)
                    self._ceiling = Level(attack.level - 1)
                    self._broken.append(f"{attack.level} does not hold: {attack.name}, {finding.detail}")
        if self.capabilities.level < self._options.min_level:
            reason = "; ".join([*self._broken, *self.capabilities.missing])
            raise FailedPrecondition(
                f"programs would run at {self.capabilities.level}, and {self._options.min_level} is the least that is "
                f"allowed here: {reason}"
            )

    async def leftovers(self) -> list[str]:
        return await asyncio.to_thread(self._leftovers)

    def _leftovers(self) -> list[str]:
        idle = [lane for lanes in self._free.values() for lane in lanes]
        found = [left for lane in idle for left in lane.leftovers()]
        own = {lane.stage for lane in self._lanes}
        found += [f"the folder {stage}" for stage in cleanup.stages(own, Path(tempfile.gettempdir()))]
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
        return await self._run_in(Kind(job.setting.runtime, job.setting.processes), job)

    async def fork_limit(self, count: int) -> float:
        each = count // self._options.lanes
        lanes = self._lanes[: self._options.lanes]  # those of plain Python, up since the start
        async with contextlib.AsyncExitStack() as gates:
            for _ in lanes:
                await gates.enter_async_context(self._gate)
            seconds = await asyncio.gather(*(lane.seconds_of_forks(each) for lane in lanes))
        return each * len(lanes) / max(seconds)

    async def _run_command(self, command: Command) -> Report:
        return await self._run_in(Kind("python", processes=True), command)

    async def _run_in(self, kind: Kind, job: protocol.Job | Command) -> Report:
        """Runs a job again that somebody killed. Raises ShortOfMemory where that was the kernel each time.

        A program can end itself, too, so one that ends so each time is to blame where the kernel killed nobody.
        """
        lost: LaneLost | None = None
        for attempt in range(_ATTEMPTS):
            kernel_kills = self._kernel_kills() if attempt else 0
            try:
                report = await self._run_once(kind, job, afresh=lost is not None)
            except LaneLost as error:
                lost = error
            except ShortOfMemory:
                if attempt == _ATTEMPTS - 1:
                    raise
                await asyncio.sleep(_RELIEF)
            else:
                if not report.killed:
                    return report
                lost = None
            _again.inc()
        if self._kernel_kills() > kernel_kills:
            raise ShortOfMemory
        return await self._blame(kind, job, lost) if lost else report

    def _kernel_kills(self) -> int:
        """How often the kernel has killed on this machine for memory: 0 where each lane's own cgroup says it."""
        return 0 if isinstance(self._home, cgroups.Home) else memory.kills()

    async def _blame(self, kind: Kind, job: protocol.Job | Command, lost: LaneLost) -> Report:
        """Raises Unavailable where a trivial program does not run either."""
        setting = Setting(kind.runtime, kind.processes)
        report = await self._run_once(kind, CallJob("def f(x):\n    return x\n", "f", ((1,),), Limits(), setting))
        if report.end is not End.EXITED or len(report.answers) != 1:
            raise lost
        log.warning("program.took_down_its_lanes", reason=lost.reason)
        return ended_with_its_lane(End.LANE, report.layers, report.level, job, Raised("LaneLost", lost.reason))

    async def _run_once(self, kind: Kind, job: protocol.Job | Command, afresh: bool = False) -> Report:
        """`afresh`: in a lane that starts for it, as whatever ended one may have ended others."""
        async with self._gate:
            free = self._free[kind]
            lane = free.pop() if free else await self._new_lane(kind)
            self.lanes_busy += 1
            # the core with the fewest jobs, and where there are several the lane's own
            core = min(self._cores, key=lambda core: (self._cores[core], core != lane.core))
            self._cores[core] += 1
            lost = True
            try:
                if afresh:
                    await lane.stop()
                compiled = await self._compiled.of(job, partial(lane.run, core=core))
                read = await lane.run(job, core, compiled)
                lost = False
            finally:
                self._cores[core] -= 1
                self.lanes_busy -= 1
                # the next one gets the lane that is warm; one that was lost has its turn after the others
                free.insert(0 if lost else len(free), lane)
        await asyncio.sleep(0)  # the next program is sent to the lane first
        report = read()
        return report if report.level <= self._ceiling else replace(report, level=self._ceiling)

    async def _new_lane(self, kind: Kind) -> Lane:
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
        lane = Lane(self._options, number, Plan(environment, kind.processes, paths), self._home)
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
