"""Builds: one for all tests of a program, and none that might come out otherwise another time."""

import asyncio
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from ratchet_kit.errors import Unavailable
from sandbox_service.adapters.languages import java
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
    # as cage/run/command.py says it
    cage = Cage(replace(DONE, exit_status=127, error=Raised("OSError", "no such file")))
    with pytest.raises(Unavailable, match="/usr/bin/gcc can't be started"):
        await Commands(Known(), cage.run).run(job())


@pytest.mark.parametrize(
    ("source", "file", "main"),
    [
        ("class A { public static void main(String[] a) {} }", "Main", "A"),
        ("public class A { public static void main(String[] a) {} }", "A", "A"),
        (
            "// public class B\n/* public class C { */ public class A { static public void main(String... a) {} }",
            "A",
            "A",
        ),
        (
            'class A { String s = "public class B { static void main("; static final void main(String[] a) {} }',
            "Main",
            "A",
        ),
        ("class A { char q = '\"'; char r = '\\''; static void main(String[] a) {} }", "Main", "A"),
        ('class A { String s = """\n public class B " \\""" {\n"""; static void main(String[] a) {} }', "Main", "A"),
        ("/* why */ public class A {}", "A", "A"),
        ("package a.b . c;\nfinal public class A { class I {} static void main(String[] a) {} }", "A", "a.b.c.A"),
        ("class B {}\nclass A { static class I {} static void main(String[] a) {} }", "Main", "A"),
        ("interface I { class N { public static void main(String[] a) {} } }", "Main", "I$N"),
        ("public enum E { X; static void f() {} }\nclass A { static void main(String[] a) {} }", "E", "A"),
        ("public record R(int x, int y) implements I { static void main(String[] a) {} }", "R", "R"),
        ("@T(B.class) public class A<T extends B> extends C { static void main(String[] a) {} }", "A", "A"),
        (
            "class A { Class<?> k = A.class; void f() { new B() { int x; }; } static void main(String[] a) {} }",
            "Main",
            "A",
        ),
        ("class A { void main() {} int main; } class B { static void main(String[] a) {} }", "Main", "B"),
        ("", "Main", "Main"),
        ('"', "Main", "Main"),
        ("/*", "Main", "Main"),
        (f"public class {'A' * 300} {{}}", "Main", "A" * 300),
    ],
)
def test_the_names_of_a_java_source(source: str, file: str, main: str) -> None:
    assert java.read(source) == java.Names(file, main)


PIECES = [
    "\n", " ", "/*", "//", "'", '"', '"""', "\\", '\\"', "*/*", "{", "}", "(", ".", "public ", "class ",
    "public static ", "class A{", "package ", "package a;", "package a.", "static void main(",
    "class A{static void main(", "record ", "final ", "a", "$", "1", "/* *", "'\\'", "é", "@",
]  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_a_java_source_is_read_in_linear_time(piece: str) -> None:
    """Four times as long takes about four times as long, and not sixteen times: the best of several, each against the
    best."""

    def seconds(length: int) -> float:
        source, best = piece * (length // len(piece)), 1e9
        for _ in range(3):
            started = time.process_time()
            java.read(source)
            best = min(best, time.process_time() - started)
        return best

    assert seconds(1 << 16) < 9 * seconds(1 << 14) + 0.001


async def test_builds_are_kept_by_a_digest_and_not_with_the_files_they_were_made_of() -> None:
    cage = Cage(BUILT)
    commands = Commands(Known(), cage.run)
    for _ in range(2):
        await commands.run(job("int main;", File("a", b"x" * 100_000), File("b", b"y")))
    await commands.run(job("int main;", File("a", b"x" * 100_000 + b"y"), File("b", b"")))
    assert cage.compilations == 2
    assert not any(isinstance(part, tuple) for key in commands._builds for part in key)


async def test_files_that_do_not_fit_are_no_fault_of_the_compiler() -> None:
    full = replace(DONE, exit_status=1, stage=Stage.STARTED, error=Raised("OSError", "no space left"))
    report = await Commands(Known(), Cage(full).run).run(job())
    assert (report.stage, report.error) == (Stage.STARTED, Raised("OSError", "no space left"))
