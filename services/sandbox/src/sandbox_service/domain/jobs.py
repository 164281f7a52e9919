"""What the cage is given to do and what it reports: jobs of four kinds, and one report, unjudged. Plain data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum

from sandbox_service.domain.forms import Form
from sandbox_service.domain.levels import Level
from sandbox_service.domain.program import File, Limits


@dataclass(frozen=True, slots=True)
class Setting:
    """What surrounds a job: the Python environment, whether it may start processes, files before and after."""

    runtime: str = "python"
    processes: bool = False
    files: tuple[File, ...] = ()
    fetch: tuple[str, ...] = ()
    fetch_bytes: int = 16 << 20


@dataclass(frozen=True, slots=True)
class CallJob:
    """Load the program, call `entry_point` with each of `calls`. Nothing in the cage may know an expected value.

    `plain`: an answer is what the call returned, which is not awaited, and only what is exactly of a plain type of
    Python's has a form.
    """

    source: str
    entry_point: str
    calls: tuple[tuple[object, ...], ...]
    limits: Limits
    setting: Setting = Setting()
    size: int = 0
    """Of the tests that it is for, in characters."""
    plain: bool = False


@dataclass(frozen=True, slots=True)
class ScriptJob:
    """Run the program as `python program.py`, with `stdin`."""

    source: str
    stdin: str
    limits: Limits
    setting: Setting = Setting()


@dataclass(frozen=True, slots=True)
class CheckJob:
    """Run `code` in one process against the program in another. `call_check`: call the `check` that it defines.

    `names`, `modules` and `unknown`: see CheckTest. `shared`: in one process with the program.
    """

    source: str
    entry_point: str
    code: str
    call_check: bool
    limits: Limits
    setting: Setting = Setting()
    names: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    shared: bool = False
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class CompileJob:
    """Compile test code, and run nothing of it: the one answer is the hexadecimal digits of what check jobs take."""

    code: str
    limits: Limits
    setting: Setting = Setting()


@dataclass(frozen=True, slots=True)
class CommandJob:
    """Compile the program, if its language is compiled, and run it with `stdin`. It may start processes.

    The limits are those of the run: a compiler has its own. `runner`: it is compiled and run as tests are.
    """

    source: str
    language: str
    stdin: str
    limits: Limits
    setting: Setting = Setting()
    runner: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """A program that isn't Python, by its path in the cage. A name in `setting.fetch` that ends in "/" is a folder."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    stdin: str
    limits: Limits
    setting: Setting


Job = CallJob | ScriptJob | CheckJob | CommandJob


class End(StrEnum):
    """How the processes of a job came to their end."""

    EXITED = "exited"  # by themselves: see Report.exit_status
    CPU = "cpu"
    TESTS = "tests"  # the tester's process computed for too long
    MEMORY = "memory"  # all its processes together
    IDLE = "idle"  # for too long it neither computed nor ended
    WALL = "wall"
    OUTPUT = "output"
    RESULT = "result"  # more bytes of answers than the cage takes
    LANE = "lane"  # its lane ended with it each time, while others ran well


class Stage(StrEnum):
    """How far the program came, by its own account."""

    STARTED = "started"
    COMPILED = "compiled"
    LOADED = "loaded"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception of the program: the type's name, its message, and the names of its base types, if known."""

    type_name: str
    message: str
    kinds: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}" if self.message else self.type_name


@dataclass(frozen=True, slots=True)
class Returned:
    """A value of the program, in the form in which it came: see forms.py. Nothing of the sender's is rebuilt.

    `opaque`: the name of the type of a value that has no form, and so equals nothing.
    """

    value: Form
    opaque: str = ""


@dataclass(frozen=True, slots=True)
class Oversized:
    """A value that was too large to be read. `limit` in bytes, of the encoded value."""

    limit: int


Answer = Returned | Raised | Oversized


class CheckVerdict(StrEnum):
    """What the tester's own process said, over a pipe that the program's process never had; or, where tests share the
    program's process, what that said."""

    PASSED = "passed"
    FAILED = "failed"  # an assertion
    RAISED = "raised"  # an exception of the program that the tests didn't expect
    BROKEN = "broken"  # an exception of the test code itself
    UNABLE = "unable"  # the tests can judge no program: the program was asked nothing before that was known
    GONE = "gone"  # the program's process ended
    SLOW = "slow"  # a call took more CPU time than the tests give it, or its elements had no end
    GARBLED = "garbled"  # the program's process sent what doesn't keep to the protocol


@dataclass(frozen=True, slots=True)
class CheckReport:
    verdict: CheckVerdict
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What the cage saw, unjudged. `answers` are in the order of the calls, as far as they came.

    `layers` are the isolation layers in force. `malformed` says what didn't keep to the protocol, if anything: only a
    program that meddled with it can do that.
    `output_cut`: there was more on stdout or stderr. `exit_status` is negative for a signal, as in subprocess.
    """

    end: End
    exit_status: int
    stage: Stage
    cpu_time: timedelta
    wall_time: timedelta
    layers: tuple[str, ...]
    level: Level = Level.NONE
    max_rss_bytes: int = 0
    stdout: str = ""
    stderr: str = ""
    output_cut: bool = False
    error: Raised | None = None
    answers: tuple[Answer, ...] = ()
    tester: CheckReport | None = None
    malformed: str = ""
    runtime: str = ""
    files: tuple[File, ...] = ()
    compile_output: str = ""
    compile_time: timedelta = timedelta()
    killed: bool = False
    """Its process, or its tests', was ended by a signal that may have come from outside."""
    unread: "Callable[[], Report] | None" = None
    """Reads the rest: of much that a program said, only what the cage itself says is here."""

    def read(self) -> "Report":
        """The whole. Time and memory are for the program to choose, within the bounds of what it may say."""
        if self.unread is None:
            return self
        return replace(self.unread(), level=self.level, files=self.files)

    def without_answers(self) -> "Report":
        """Once they are judged."""
        return replace(self, answers=())
