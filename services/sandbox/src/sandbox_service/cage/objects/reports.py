"""What a program prints, warns of and logs while tests use it, so that they see it as if it happened with them.

The program's side: it's noted, and goes along with the next thing said to the tests, which play it again: replay.py.
Kinds of event, each a list: [out, text], [err, text], [warning, kinds, text, line],
[log, logger, level, text, whether the program itself lets it through, function, line, trace, the exception's form or
nothing, the form of what `extra` gave].
"""

import builtins
import io
import os
import sys
import types
from collections.abc import Callable
from typing import Any

from sandbox_service.cage.objects import link
from sandbox_service.cage.run import runner
from sandbox_service.cage.wire import library, wire

_MOST_TEXT = 1 << 20
_MOST_EVENTS = 1000
_MOST_VALUE = 10_000
Ask = Callable[..., Any]


class Reports:
    """`ask`: asks the tests for what they have put in place of standard input and of `input`; None if nothing."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._events: list[list[Any]] = []
        self._room = _MOST_TEXT
        self._warns = False

    def install(self, source: str) -> None:
        """Before the program is loaded, for it may keep what it finds. `source`: what it doesn't name, it has not."""
        sys.stdout = sys.__stdout__ = self._stream(1, "out", "backslashreplace")  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = self._stream(2, "err", "backslashreplace")  # type: ignore[misc]
        lines = io.BufferedReader(_In(self._ask))
        sys.stdin = sys.__stdin__ = io.TextIOWrapper(lines, "utf-8", "replace", "\n")  # type: ignore[misc]
        if "input" in source:
            _stand_in_for_input(self._ask)
        warnings = sys.modules["warnings"]
        self._watch_warnings(warnings)
        if "logging" in source:
            self._watch_logging(__import__("logging"))

    def take(self) -> list[list[Any]]:
        """What came since the last time."""
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BaseException:  # noqa: BLE001 (it may be the program's own)
                pass
        taken, self._events, self._room = self._events, [], _MOST_TEXT
        for event in taken:
            if event[0] in ("out", "err"):
                event[1] = event[1].decode("utf-8", "replace")
        return taken

    # --- what is noted

    def _stream(self, descriptor: int, kind: str, errors: str) -> io.TextIOWrapper:
        raw = _Out(descriptor, lambda data: self._note_text(kind, data))
        made = io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", errors, "\n", line_buffering=kind == "err")
        made.mode = "w"  # type: ignore[misc]
        return made

    def _note_text(self, kind: str, data: bytes) -> None:
        data = data[: max(self._room, 0)]
        self._room -= len(data)
        if self._events and self._events[-1][0] == kind:
            self._events[-1][1] += data
        elif data:
            self._note(kind, bytearray(data))

    def _note(self, *event: Any) -> None:
        if len(self._events) < _MOST_EVENTS:
            self._events.append(list(event))

    def _watch_warnings(self, warnings: types.ModuleType) -> None:
        """Whatever the filters say, for those of the tests decide. What the program catches itself stays its own."""
        plain_filters, warn = warnings.filters, warnings.warn

        def show(message: Any) -> None:
            if not self._warns and warnings.filters is plain_filters:
                self._note("warning", link.kinds(message.category), str(message.message)[:10_000], message.lineno)
            os.write(2, warnings.formatwarning(*(getattr(message, name) for name in _SHOWN)).encode("utf-8", "replace"))

        def noted(message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **more: Any) -> None:
            if warnings.filters is plain_filters and vars(warnings)["_showwarnmsg_impl"] is show:
                kind = type(message) if isinstance(message, Warning) else category or UserWarning
                if isinstance(kind, type):
                    self._note("warning", link.kinds(kind), str(message)[:10_000], sys._getframe(1).f_lineno)
            before, self._warns = self._warns, True
            try:
                warn(message, category, stacklevel + 1, source, **more)
            finally:
                self._warns = before

        noted.__name__ = noted.__qualname__ = "warn"
        vars(warnings).update(warn=noted, _showwarnmsg_impl=show)

    def _watch_logging(self, logging: Any) -> None:
        """Whatever the levels say, up to a thousand records: those of the tests decide, too."""
        is_enabled, handle = logging.Logger.isEnabledFor, logging.Logger.handle
        plain = {*vars(logging.LogRecord("", 0, "", 0, "", (), None)), "message", "asctime"}

        def is_watched(logger: Any, level: int) -> bool:
            return len(self._events) < _MOST_EVENTS or bool(is_enabled(logger, level))

        def handle_if_enabled(logger: Any, record: Any) -> None:
            enabled = is_enabled(logger, record.levelno)
            trace = logging.Formatter().formatException(record.exc_info)[:10_000] if record.exc_info else ""
            text = str(record.getMessage())[:10_000]
            place = record.funcName, record.lineno
            self._note("log", record.name, record.levelno, text, enabled, *place, trace, *_values_of(record, plain))
            if enabled:
                handle(logger, record)

        logging.Logger.isEnabledFor, logging.Logger.handle = is_watched, handle_if_enabled


_SHOWN = ("message", "category", "filename", "lineno", "line")


def _values_of(record: Any, plain: set[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The form of its exception, and of its attributes beside those that each record has."""
    error = record.exc_info[1] if record.exc_info else None
    raised: dict[str, Any] = {}
    if error is not None:
        raised = {"kinds": link.kinds(type(error)), "message": runner.describe(error)[1]}
        if len(str(error.args)) < _MOST_VALUE:
            raised["args"] = runner.encode(error.args)
    added = {name: item for name, item in vars(record).items() if name not in plain and _is_value(item)}
    return raised, {"d": [[name, runner.encode(item)] for name, item in added.items()]}


def _is_value(item: object) -> bool:
    is_known = type(item) in (*link.PLAIN, bool, type(None)) or library.kind_of(item) is not None
    return is_known and len(repr(item)) < _MOST_VALUE


class _Out(io.RawIOBase):
    """A descriptor, and what's written there."""

    mode = "wb"

    def __init__(self, descriptor: int, note: Callable[[bytes], None]) -> None:
        self._descriptor, self._note = descriptor, note
        self.name = "<stdout>" if descriptor == 1 else "<stderr>"

    def fileno(self) -> int:
        return self._descriptor

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        written = bytes(data)
        wire.write_all(self._descriptor, written)
        self._note(written)
        return len(written)


class _In(io.RawIOBase):
    """Standard input: line by line that of the tests, where they have their own, or else the descriptor."""

    name, mode = "<stdin>", "rb"

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._rest = b""

    def fileno(self) -> int:
        return 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            line = self._ask("line")
            self._rest = os.read(0, len(buffer)) if line is None else str(line).encode()
        taken, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)


def _stand_in_for_input(ask: Ask) -> None:
    plain = builtins.input

    def input(prompt: object = "", /) -> Any:
        given = ask("input", str(prompt)) if prompt != "" else ask("input")
        return plain(prompt) if given is None else given[0]

    builtins.input = input
