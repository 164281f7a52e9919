"""Reads programs in a process of its own with limits: what a model wrote may take a parser down, or gigabytes."""

import json
import os
import pickle
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from ratchet_problems import Problem, StdioTest
from ratchet_quality.components import COMPONENTS, READABLE
from ratchet_quality.score import Parameters, Score

MAX_BYTES = 64 << 10
"""Of a source that is read at all."""
TIMEOUT_S = 20.0
"""For one program, all components; the start of a process included."""
_NO_TESTS = (StdioTest("", ""),)


def read(programs: Iterable[tuple[str, Problem]], components: Sequence[str] = ()) -> list[Mapping[str, Score]]:
    """Component -> score of each (source, problem), in order; of all components where none is named.

    A program that can't be read scores 0, and says why: no Python, more than MAX_BYTES, more time than TIMEOUT_S or
    more memory than its reader has. Raises KeyError for a component that there is not.
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
        text = source.encode("utf-8", "replace")
        if len(text) > MAX_BYTES:
            return self._unread(f"more than {MAX_BYTES >> 10} KiB")
        # tests may be megabytes, and nothing that reads looks at them
        request = pickle.dumps((text.decode(), replace(problem, tests=_NO_TESTS), self._components))
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(len(request).to_bytes(8, "big") + request)
            process.stdin.flush()
            answer = self._line(process.stdout.fileno())
        except BrokenPipeError:
            answer = b""
        if not answer:
            self._end()
            return self._unread("it took its reader down, or too much time")
        found = json.loads(answer)
        return {name: Score(value, detail) for name, (value, detail) in found.items()}

    def _unread(self, reason: str) -> Mapping[str, Score]:
        return dict.fromkeys(self._components, Score(0.0, f"not read: {reason}"))

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            environment = {"PATH": os.environ.get("PATH", ""), "TMPDIR": self._folder.name, "RAYON_NUM_THREADS": "1"}
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-m", "ratchet_quality.child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=self._folder.name,
                env=environment,
                start_new_session=True,
            )
        return self._process

    def _line(self, file: int) -> bytes:
        """One line, without its end; empty when none came in time."""
        line = bytearray()
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([file], [], [], TIMEOUT_S)
            part = os.read(file, 1 << 16) if ready else b""
            if not part:
                return b""
            line += part
        return bytes(line[:-1])

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
