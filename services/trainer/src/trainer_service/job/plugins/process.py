"""Functions of plug-ins that are called in a process of their own: what one prints, breaks or never ends is its own
affair. Values go in and come out as JSON."""

import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import Any, Self

from ratchet_kit.errors import DataLoss, InvalidArgument
from ratchet_kit.process import line_of
from trainer_service.job.plugins import entry_points

START_S = 120.0
"""For what it imports, on a busy machine."""
CALL_S = 60.0
MOST = 100_000
"""Items of an answer: a generator may have no end."""


class PluginProcess:
    """One plug-in's function. One call at a time, from any thread; where the process ends or takes too long, the next
    call starts another."""

    def __init__(self, kind: str, name: str, digest: str = "") -> None:
        """`digest`: of its code; empty: it may be any."""
        self._what = f"the {kind} {name}"
        self._command = [sys.executable, "-m", "trainer_service.job.plugins.process", kind, name, digest]
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._end()
            self._errors.close()

    def start(self) -> None:
        """Raises as a call, where it cannot be called at all."""
        with self._lock:
            self._process = self._process or self._started()

    def __call__(self, *arguments: Any, most: int = MOST) -> Any:
        """`most`: items of an answer that comes one by one.

        Raises InvalidArgument, with one sentence, where it has no answer, DataLoss where it is other code.
        """
        request = json.dumps({"arguments": arguments, "most": most}).encode() + b"\n"
        with self._lock:
            found = self._ask(self._process or self._started(), request, CALL_S)
        if "error" in found:
            raise InvalidArgument(found["error"])
        return found["answer"]

    def _started(self) -> subprocess.Popen[bytes]:
        self._errors.seek(0)  # the next process writes where the last one ended
        self._errors.truncate()
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, start_new_session=True
        )
        process, found = self._process, self._ask(self._process, b"", START_S)
        if "answer" not in found:
            self._end()
            raise DataLoss(found["lost"]) if "lost" in found else InvalidArgument(found["error"])
        return process

    def _ask(self, process: subprocess.Popen[bytes], line: bytes, limit_s: float) -> dict[str, Any]:
        """What it says: its answer, or why it has none."""
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # its last words say why
            process.stdin.write(line)
            process.stdin.flush()
        said = line_of(process.stdout.fileno(), limit_s)
        if not said:
            words = self._last_words(process, limit_s)
            self._end()
            raise InvalidArgument(f"{self._what} has no answer: {words}")
        found: dict[str, Any] = json.loads(said)
        return found

    def _last_words(self, process: subprocess.Popen[bytes], limit_s: float) -> str:
        try:
            status = process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            return f"it took more than {limit_s:.0f} s"
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else f"its process ended with {status}"

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def main(kind: str, name: str, digest: str) -> None:
    """The process: a line of JSON comes in for each call, and one goes out."""
    answers = os.dup(1)
    os.dup2(2, 1)  # what it prints is no answer

    def say(**said: Any) -> None:
        line = json.dumps(said, default=_plain).encode() + b"\n"
        while line:
            line = line[os.write(answers, line) :]

    try:
        function = entry_points.function_of(kind, name, digest)
    except DataLoss as error:
        say(lost=error.message)
        return
    except InvalidArgument as error:
        say(error=error.message)
        return
    say(answer=None)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        try:
            answer = function(*request["arguments"])
            say(answer=list(itertools.islice(answer, request["most"])) if isinstance(answer, Iterator) else answer)
        except Exception as error:  # noqa: BLE001 - whatever the code of others raises
            say(error=f"the {kind} {name} failed: {type(error).__name__}: {error}"[:500])


def _plain(value: Any) -> Any:
    """Problems, and numbers of numpy's, as JSON has them. Raises TypeError for what JSON has not."""
    for name in ("to_json", "item"):
        if callable(method := getattr(value, name, None)):
            return method()
    raise TypeError(f"JSON has no {type(value).__name__}")


if __name__ == "__main__":
    main(*sys.argv[1:])
