"""A request: a program, its tests, its limits."""

from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum

MAX_OUTPUT_BYTES = 1 << 20
"""The most that a program may ask to have kept of its output."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one program may use in all, its tests together.

    cpu_time counts CPU seconds of all its threads and processes, not the clock. memory_bytes is private writable
    memory. output_bytes is what's kept of stdout, and of stderr: only stdout that is judged may not go beyond it, nor
    beyond `output_for` what is expected.
    idle_time is how long it may sleep and wait; unset, the executor says.
    """

    cpu_time: timedelta = timedelta(seconds=5)
    memory_bytes: int = 512 << 20
    output_bytes: int = 64 << 10
    idle_time: timedelta | None = None


def output_for(expected: str) -> int:
    """Bytes that a program may print where that is expected, whatever its limit: twice as many, for blanks."""
    return 2 * len(expected.encode())


@dataclass(frozen=True, slots=True)
class CallTest:
    """The entry point, called with `args`, returns `expected`: floats within `tolerance`, absolute and relative.

    No `tolerance`: within compare.DEFAULT.

    `raises`: it raises an exception of that name, or of a kind of it, instead. `unordered`: the elements of a list or
    tuple come in any order.
    """

    args: tuple[object, ...]
    expected: object = None
    tolerance: float | None = None
    raises: str = ""
    unordered: bool = False
    held_out: bool = False
    size: int = field(default=0, compare=False)
    """Characters of its literals: what is large is encoded and compared where it holds up nobody."""


@dataclass(frozen=True, slots=True)
class StdioTest:
    """The program, run as a script on `stdin`, prints `expected_stdout`, compared by whitespace-separated tokens."""

    stdin: str
    expected_stdout: str
    held_out: bool = False
    tolerance: float | None = None
    """Of tokens that are decimal numbers, absolute or relative; None compares them as text."""


class Relation(Enum):
    """How an answer is asserted to stand to what is expected."""

    EQUALS = "=="
    IS = "is"  # None, True or False
    TRUTH = "bool"  # that of the answer is True or False


@dataclass(frozen=True, slots=True)
class Asserted:
    """`assert f(*args) == expected, message`, in test code, or in another relation. No message: the empty text."""

    args: tuple[object, ...]
    expected: object
    relation: Relation = Relation.EQUALS
    message: str = ""


@dataclass(frozen=True, slots=True)
class CheckTest:
    """Test code that calls the program: plain asserts, tests of pytest, unittest and doctest, a script, or
    `def check(candidate)`, called here if the code doesn't.

    `names`: what it may use of the program beside the entry point. `modules`: of the library, what it uses without an
    import. `shared`: it runs in the program's process, and sees all of it. `unknown`: a name that it uses and nothing
    gives, so that it can judge no program. `asserted`: all that it does, where that is no more than such calls.
    """

    code: str
    calls_check: bool = False
    held_out: bool = False
    names: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    shared: bool = False
    unknown: str = ""
    asserted: tuple[Asserted, ...] = field(default=(), compare=False)


Test = CallTest | StdioTest | CheckTest
"""`held_out`: it counts, and nothing of it is ever shown, nor what the program said to it."""


@dataclass(frozen=True, slots=True)
class File:
    """`name` is relative to the program's folder, parts separated by "/", none of them ".."."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Program:
    """Untrusted source with the tests it's judged by. Without tests it's only run, on `stdin`.

    `entry_point` is what call tests call and check tests receive: a function, a class, or `Solution.f`, a method of a
    new Solution. `runtime` is a Python environment; empty, the imports choose one: see runtimes.py. `processes`: it may
    start some. `files` are in its folder before it starts, those named by `fetch_files` come back.
    """

    id: str
    source: str
    entry_point: str = ""
    tests: tuple[Test, ...] = ()
    stdin: str = ""
    limits: Limits = Limits()
    language: str = "python"
    runtime: str = ""
    processes: bool = False
    files: tuple[File, ...] = ()
    fetch_files: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes that it holds while it waits, about: of its texts a byte a character."""
        tests = sum(map(_size_of, self.tests))
        return len(self.source) + len(self.stdin) + tests + sum(len(file.content) for file in self.files)


def _size_of(test: Test) -> int:
    match test:
        case CallTest():
            return test.size
        case StdioTest():
            return len(test.stdin) + len(test.expected_stdout)
        case CheckTest():
            return len(test.code)
