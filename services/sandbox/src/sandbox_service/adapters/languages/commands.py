"""Programs in other languages: compiled once, run as often as there are tests, each time from a fresh folder."""

import asyncio
import contextlib
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeVar

from ratchet_kit.errors import Unavailable, Unimplemented
from sandbox_service.adapters.languages.toolchains import Toolchain, Toolchains
from sandbox_service.domain.jobs import Command, CommandJob, End, Raised, Report, Setting, Stage
from sandbox_service.domain.program import File, Limits

COMPILE_LIMITS = Limits(timedelta(seconds=30), 2 << 30, 64 << 10)
CANNOT_START = 127
"""The status of a command that could not be started: cage/run/command.py."""
_BUILD_BYTES = 48 << 20  # what a compiler makes: large arrays are in it
_KEPT_BYTES = 64 << 20
_LARGE = 1 << 16  # bytes or characters
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
}

Run = Callable[[Command], Awaitable[Report]]
_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class _Build:
    """What a compiler made, or that it made nothing. `report` is that of the compiler."""

    files: tuple[File, ...]
    report: Report

    @property
    def output(self) -> str:
        return self.report.stdout + self.report.stderr


class Commands:
    """`run` takes one command to the cage. Builds of the same source are kept: a batch often asks for one again."""

    def __init__(self, toolchains: Toolchains, run: Run) -> None:
        self._toolchains, self._run = toolchains, run
        self._builds: OrderedDict[object, _Build] = OrderedDict()
        self._under_way: dict[object, asyncio.Lock] = {}

    async def run(self, job: CommandJob) -> Report:
        """Raises Unimplemented for a language that isn't here, Unavailable.

        Files of the job that are named as its source or what the compiler makes give way to these.
        """
        tool = await self._toolchains.get(job.language)
        if tool is None:
            raise Unimplemented(f"language {job.language!r} is not on this node")
        environment = {**ENVIRONMENT, **tool.environment}
        words = await _apart(len(job.source), tool.words, job.source)
        if job.runner and tool.language.file_of_tests:
            words = {**words, "file": tool.language.file_of_tests}
        source = File(words["file"], job.source.encode("utf-8", "surrogatepass"))
        own = {source.name, *(name.rstrip("/") for name in tool.language.keep)}
        others = tuple(file for file in job.setting.files if file.name.partition("/")[0] not in own)
        files = (*others, *tool.language.files, source)
        build = None
        if tool.language.compile:
            build = await self._build(tool, words, files, environment, runner=job.runner)
            if not build.files:
                return _compile_error(build, tool)
            files = (*others, *build.files)
        run = tool.language.run_tests if job.runner else ()
        argv = tool.command(run or tool.language.run, words, job.limits.memory_bytes)
        setting = Setting("python", True, files, job.setting.fetch)
        report = _with_own_memory_error(
            await self._run(Command(argv, environment, job.stdin, job.limits, setting)), tool
        )
        report = replace(report, runtime=tool.language.name)
        if build is None:
            return report
        return replace(report, compile_output=build.output, compile_time=build.report.cpu_time)

    async def _build(
        self,
        tool: Toolchain,
        words: Mapping[str, str],
        files: tuple[File, ...],
        environment: dict[str, str],
        *,
        runner: bool,
    ) -> _Build:
        compile_ = (runner and tool.language.compile_tests) or tool.language.compile
        key = tool.language.name, runner, await _apart(sum(len(file.content) for file in files), _digest, files)
        async with self._alone(key):
            if key in self._builds:
                self._builds.move_to_end(key)
                return self._builds[key]
            argv = tool.command(compile_, words, COMPILE_LIMITS.memory_bytes)
            setting = Setting("python", True, files, tool.language.keep, _BUILD_BYTES)
            report = await self._run(Command(argv, environment, "", COMPILE_LIMITS, setting))
            if report.error is not None and report.exit_status == CANNOT_START:
                raise Unavailable(f"{argv[0]} can't be started in the sandbox: {report.error}")
            made = report.end is End.EXITED and report.exit_status == 0
            build = _Build(report.files if made else (), replace(report, files=()))
            if report.end is not End.EXITED or report.exit_status < 0:
                return build  # a limit or a signal: another time it may come out otherwise
            self._builds[key] = build
            while sum(_size(each) for each in self._builds.values()) > _KEPT_BYTES and len(self._builds) > 1:
                self._builds.popitem(last=False)
            return build

    @contextlib.asynccontextmanager
    async def _alone(self, key: object) -> AsyncIterator[None]:
        """Tests of one program come at the same time: one of them compiles, the others wait for it."""
        lock = self._under_way.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._under_way.pop(key, None)


async def _apart(size: int, work: Callable[[_T], _R], on: _T) -> _R:
    """What is large is read in a thread, so that others are served meanwhile."""
    return await asyncio.to_thread(work, on) if size > _LARGE else work(on)


def _digest(files: tuple[File, ...]) -> bytes:
    """And not the files themselves, which would be kept as long as the build."""
    digest = hashlib.sha256()
    for file in files:
        name = file.name.encode()
        digest.update(b"%d %d " % (len(name), len(file.content)) + name)
        digest.update(file.content)
    return digest.digest()


def _with_own_memory_error(report: Report, tool: Toolchain) -> Report:
    if tool.language.out_of_memory is None or report.end is not End.EXITED:
        return report
    status, words = tool.language.out_of_memory
    reported = report.exit_status == status and (words in report.stdout[-200:] or words in report.stderr[-200:])
    return replace(report, end=End.MEMORY) if reported else report


def _size(build: _Build) -> int:
    return 4096 + len(build.output) + sum(len(file.content) for file in build.files)


def _compile_error(build: _Build, tool: Toolchain) -> Report:
    """No run, no time used: what the compiler said, and the line of it that says most."""
    report = build.report
    limits = COMPILE_LIMITS
    reason = {
        End.CPU: f"used more than {limits.cpu_time.total_seconds():g} s of CPU time",
        End.IDLE: "did not end",
        End.WALL: "did not end",
        End.MEMORY: f"used more than {limits.memory_bytes >> 30} GiB",
        End.OUTPUT: f"printed more than {limits.output_bytes >> 10} KiB",
        End.LANE: "took down the lane that it ran in, twice",
    }.get(report.end, f"ended with status {report.exit_status}")
    lines = build.output.splitlines()
    plain = [line for line in lines if line.strip() and not line.startswith("#")]
    telling = next((line for line in plain if "error" in line), plain[0] if plain else "")
    return replace(
        report,
        end=End.EXITED,
        exit_status=report.exit_status or 1,
        stage=Stage.STARTED,
        error=report.error or Raised(f"the compiler {reason}", telling.strip()),
        stdout="",
        stderr="",
        cpu_time=timedelta(),
        runtime=tool.language.name,
        compile_output=build.output,
        compile_time=report.cpu_time,
    )
