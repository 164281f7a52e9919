"""What pytest's capsys, capfd and caplog give to tests: what was printed and logged, by them and by the program."""

import contextlib
import io
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple


class Captured(NamedTuple):
    out: Any
    err: Any


class CaptureFixture:
    """What is printed, by the tests and by the program."""

    def __init__(self, binary: bool = False) -> None:
        self._binary = binary
        self._plain = sys.stdout, sys.stderr
        self._caught = _stream(), _stream()

    def start(self) -> None:
        sys.stdout, sys.stderr = self._caught

    def stop(self) -> None:
        sys.stdout, sys.stderr = self._plain

    def readouterr(self) -> Captured:
        found = []
        for stream in self._caught:
            stream.flush()
            data = stream.buffer.getvalue()  # type: ignore[attr-defined]
            found.append(data if self._binary else data.decode())
            stream.seek(0)
            stream.truncate()
        return Captured(*found)

    @contextlib.contextmanager
    def disabled(self) -> Iterator[None]:
        self.stop()
        try:
            yield
        finally:
            self.start()

    def __class_getitem__(cls, _: object) -> Any:
        return cls


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), "utf-8", newline="", write_through=True)


def capture(binary: bool) -> Iterator[CaptureFixture]:
    made = CaptureFixture(binary)
    made.start()
    try:
        yield made
    finally:
        made.stop()


class LogCaptureFixture:
    """The records that reach the root logger, of the tests and of the program."""

    def __init__(self) -> None:
        import logging

        self._logging = logging
        self._levels: dict[Any, int] = {}
        records: list[Any] = []
        self.records = records

        class Handler(logging.Handler):
            def emit(self, record: Any) -> None:
                records.append(record)

        self.handler = Handler()
        form = "%(levelname)-8s %(name)s:%(filename)s:%(lineno)d %(message)s"
        self._formatter = logging.Formatter(form)
        logging.getLogger().addHandler(self.handler)

    @property
    def text(self) -> str:
        return "".join(f"{self._formatter.format(record)}\n" for record in self.records)

    @property
    def messages(self) -> list[str]:
        return [record.getMessage() for record in self.records]

    @property
    def record_tuples(self) -> list[tuple[str, int, str]]:
        return [(record.name, record.levelno, record.getMessage()) for record in self.records]

    def clear(self) -> None:
        self.records.clear()

    def set_level(self, level: Any, logger: str | None = None) -> None:
        found = self._logging.getLogger(logger)
        self._levels.setdefault(found, found.level)
        found.setLevel(level)

    @contextlib.contextmanager
    def at_level(self, level: Any, logger: str | None = None) -> Iterator[None]:
        found = self._logging.getLogger(logger)
        before = found.level
        found.setLevel(level)
        try:
            yield
        finally:
            found.setLevel(before)

    def stop(self) -> None:
        self._logging.getLogger().removeHandler(self.handler)
        for logger, level in self._levels.items():
            logger.setLevel(level)
