"""What the program printed, warned of and logged, once more with the tests: reports.py says what comes.

It's data: it goes to what the tests have put in place of their streams, through their filters and to their handlers.
"""

import builtins
import sys
from collections.abc import Callable
from typing import Any

from sandbox_service.cage.objects import lent


class Replay:
    def __init__(
        self,
        errors: dict[str, type[BaseException]],
        decode: Callable[[Any], Any],
        error_of: Callable[[dict[str, Any]], BaseException],
    ) -> None:
        """`errors`: the classes of exceptions that the tests know, by kind. The others make what forms say."""
        self._errors, self._decode, self._error_of = errors, decode, error_of
        self._streams = {"out": sys.stdout, "err": sys.stderr}
        self._stdin, self._input = sys.stdin, builtins.input
        self._waiting: list[list[Any]] = []

    def take(self, events: Any) -> None:
        """Raises ValueError for what are no events, and what wrong forms raise."""
        for event in events:
            kind, *rest = event
            if [type(one) for one in rest] != _PARTS.get(kind):
                raise ValueError("no event")
            if kind == "log":
                raised, added = event[-2:]
                event[-2:] = self._error_of(raised) if raised else None, self._decode(added)
            self._waiting.append(event)

    def play(self) -> None:
        """Raises what the tests' streams, filters and handlers raise."""
        while self._waiting:
            kind, *rest = self._waiting.pop(0)
            if kind == "warning":
                self._warn(*rest)
            elif kind == "log":
                self._log(*rest)
            else:
                stream = sys.stdout if kind == "out" else sys.stderr
                if stream is not self._streams[kind] and stream is not None:
                    stream.write(*rest)

    def _warn(self, kinds: list[str], text: str, line: int) -> None:
        import warnings

        category = lent.error_class([str(kind) for kind in kinds], self._errors)
        if not issubclass(category, Warning):
            category = UserWarning
        warnings.warn_explicit(text, category, "program.py", line, "program")

    def _log(
        self, name: str, level: int, text: str, enabled: bool, function: str, line: int, trace: str,
        error: BaseException | None, added: dict[Any, Any],
    ) -> None:  # fmt: skip
        """The level that the tests gave a logger decides; where they gave it none, the program's own does, too."""
        logging: Any = sys.modules.get("logging")
        if logging is None:
            return
        logger = logging.getLogger(None if name == "root" else name)
        lets_through = logger.isEnabledFor(level) or (enabled and logger.level == logging.NOTSET)
        if lets_through and logger.hasHandlers():
            record = logging.LogRecord(name, level, "program.py", line, text, (), None, function)
            record.exc_text = trace or None
            record.exc_info = None if error is None else (type(error), error, None)
            for attribute, value in added.items():
                if isinstance(attribute, str) and not hasattr(record, attribute):
                    setattr(record, attribute, value)
            logger.handle(record)

    def read(self, do: str, arguments: list[Any]) -> Any:
        """For a program that reads: from what the tests have put there. None: they have not."""
        if do == "input" and builtins.input is not self._input:
            return (builtins.input(*arguments),)
        if do == "line" and sys.stdin is not self._stdin:
            return sys.stdin.readline()
        return None


_PARTS: dict[Any, list[type]] = {
    "out": [str],
    "err": [str],
    "warning": [list, str, int],
    "log": [str, int, str, bool, str, int, str, dict, dict],
}
