"""Reads programs in a process of its own with limits: what a model wrote may take a parser down, or gigabytes."""

import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from ratchet_kit.errors import Unavailable
from ratchet_kit.process import line_of
from ratchet_problems import Problem, StdioTest
from ratchet_quality.components import COMPONENTS, READABLE
from ratchet_quality.score import Parameters, Score

MAX_BYTES = 64 << 10
"""The longest source that is read."""
TIMEOUT_S = 20.0
"""For one program, all components."""
START_S = 120.0
"""For the start of a process: what components import takes seconds, and more on a busy machine."""
ATTEMPTS = 3
"""For a program whose reader was kept from reading."""
_NO_TESTS = (StdioTest("", ""),)


def read(programs: Iterable[tuple[str, Problem]], components: Sequence[str] = ()) -> list[Mapping[str, Score]]:
    """Component -> score of each (source, problem), in order; of all components where none is named.

    A program that can't be read scores 0, and says why: no Python, more than MAX_BYTES, more time than TIMEOUT_S or
    more memory than its reader has. Raises KeyError for a component that there is not, Unavailable where the machine
    was too busy to read.
    """
    wanted = list(components or COMPONENTS)
    for name in wanted:
        if name not in READABLE:
            raise KeyError(name)
    with Reader(wanted) as reader:
        return [reader.read(source, problem) for source, problem in programs]


class Reader:
    """One process at a time, started when it is first needed and after each program that took it down."""

    def __init__(self, components: Sequence[str], parameters: Mapping[str, Parameters] | None = None) -> None:
        """`parameters`: of those components that are given some."""
        self._components = {name: dict((parameters or {}).get(name, {})) for name in components}
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = tempfile.TemporaryDirectory()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        self._folder.cleanup()

    def read(self, source: str, problem: Problem) -> Mapping[str, Score]:
        """As `ratchet_quality.read`. Raises Unavailable."""
        text = source.encode("utf-8", "replace")
        if len(text) > MAX_BYTES:
            return self._unread(f"more than {MAX_BYTES >> 10} KiB")
        # tests may be megabytes, and nothing that reads looks at them
        request = pickle.dumps((text.decode(), replace(problem, tests=_NO_TESTS), self._components))
        for _ in range(ATTEMPTS):
            process = self._running()
            before = _cpu_seconds(process.pid)
            if answer := self._answer(process, request):
                found = json.loads(answer)
                return {name: Score(value, detail) for name, (value, detail) in found.items()}
            # alive, and hardly computing: others had the machine, which says nothing about the program
            was_kept = process.poll() is None and _cpu_seconds(process.pid) - before < TIMEOUT_S / 2
            self._end()
            if not was_kept:
                return self._unread("it took its reader down, or too much time")
        raise Unavailable(f"the machine is too busy to read programs: {ATTEMPTS} times not in {TIMEOUT_S:g} s")

    def _answer(self, process: subprocess.Popen[bytes], request: bytes) -> bytes:
        """The answer; empty when none came in time."""
        assert process.stdin is not None
        try:
            process.stdin.write(len(request).to_bytes(8, "big") + request)
            process.stdin.flush()
            return _line(process, TIMEOUT_S)
        except BrokenPipeError:
            return b""

    def _unread(self, reason: str) -> Mapping[str, Score]:
        return dict.fromkeys(self._components, Score(0.0, f"not read: {reason}"))

    def _running(self) -> subprocess.Popen[bytes]:
        """Raises Unavailable for one that does not come up."""
        if self._process is None:
            environment = {"PATH": os.environ.get("PATH", ""), "TMPDIR": self._folder.name, "RAYON_NUM_THREADS": "1"}
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-m", "ratchet_quality.child", *self._components],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=self._folder.name,
                env=environment,
                start_new_session=True,
            )
            if _line(self._process, START_S) != b"ready":
                self._end()
                raise Unavailable("the process that reads programs does not start")
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _line(process: subprocess.Popen[bytes], timeout_s: float) -> bytes:
    assert process.stdout is not None
    return line_of(process.stdout.fileno(), timeout_s)


def _cpu_seconds(pid: int) -> float:
    """CPU time of the process and of its children that have ended (proc(5), /proc/pid/stat); 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
