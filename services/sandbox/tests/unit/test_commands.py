"""Builds: one for all tests of a program, and none that might come out otherwise another time."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from ratchet_kit.errors import Unavailable
from sandbox_service.adapters.languages.commands import Commands
from sandbox_service.adapters.languages.toolchains import LANGUAGES, Toolchain, Toolchains
from sandbox_service.domain.jobs import Command, CommandJob, End, Raised, Report, Setting, Stage
from sandbox_service.domain.program import File, Limits

DONE = Report(End.EXITED, 0, Stage.LOADED, timedelta(seconds=1), timedelta(seconds=1), "")
BUILT = replace(DONE, files=(File("program", b"binary"),), stderr="a warning")
C = Toolchain(LANGUAGES[0], {"gcc": "/usr/bin/gcc"}, "12")


class Known(Toolchains):
    async def get(self, name: str) -> Toolchain:
        return C


class Cage:
    """Answers a compiler with `compiled`, and what it made with `ran`."""

    def __init__(self, compiled: Report, ran: Report = DONE) -> None:
        self.compiled, self.ran = compiled, ran
        self.compilations = 0
        self.commands: list[Command] = []

    async def run(self, command: Command) -> Report:
        await asyncio.sleep(0)
        self.commands.append(command)
        if command.argv[0] != "/usr/bin/gcc":
            return self.ran
        self.compilations += 1
        return self.compiled


def job(source: str = "int main;", *files: File) -> CommandJob:
    return CommandJob(source, "c", "in", Limits(), Setting(files=files, fetch=("out",)))


async def test_tests_of_one_program_share_a_build() -> None:
    cage = Cage(BUILT)
    commands = Commands(Known(), cage.run)
    reports = await asyncio.gather(*(commands.run(job()) for _ in range(5)))
    assert cage.compilations == 1
    assert {report.compile_output for report in reports} == {"a warning"}
    assert {report.cpu_time for report in reports} == {DONE.cpu_time}
    await commands.run(job("int other;"))
    assert cage.compilations == 2


async def test_what_is_run_has_the_build_and_the_files_but_not_the_source() -> None:
    cage = Cage(BUILT)
    await Commands(Known(), cage.run).run(job("int main;", File("in.txt", b"x"), File("program/x", b"y")))
    compiled, ran = cage.commands
    assert [file.name for file in compiled.setting.files] == ["in.txt", "main.c"]
    assert [file.name for file in ran.setting.files] == ["in.txt", "program"]
    assert (ran.stdin, ran.setting.fetch, ran.argv) == ("in", ("out",), ("./program",))


@pytest.mark.parametrize(
    ("compiled", "kept"),
    [
        (replace(DONE, exit_status=1, stderr="main.c:1: error: no"), True),
        (replace(DONE, end=End.CPU, exit_status=-9), False),
        (replace(DONE, end=End.WALL, exit_status=-9), False),
        (replace(DONE, exit_status=-11), False),
    ],
)
async def test_what_does_not_compile(compiled: Report, kept: bool) -> None:
    cage = Cage(compiled)
    commands = Commands(Known(), cage.run)
    for _ in range(2):
        report = await commands.run(job())
        assert (report.end, report.stage, report.cpu_time) == (End.EXITED, Stage.STARTED, timedelta())
        assert report.error is not None
        assert report.compile_time == DONE.cpu_time
    assert cage.compilations == (1 if kept else 2)


async def test_a_compiler_that_cannot_be_started_is_the_platforms_fault() -> None:
    cage = Cage(replace(DONE, error=Raised("OSError", "no such file")))
    with pytest.raises(Unavailable, match="/usr/bin/gcc can't be started"):
        await Commands(Known(), cage.run).run(job())
