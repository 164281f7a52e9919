"""A folder that a long command keeps its work in: one process at a time, files that survive a power cut, and a log."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ratchet_workflows.errors import WorkflowError


class KeptFolder:
    """Its methods raise WorkflowError when it cannot be read or written."""

    def __init__(self, folder: Path, command: str) -> None:
        """`command`: whose it is, "ratchet study"."""
        self.folder = folder
        self._command = command

    @contextmanager
    def locked(self) -> Iterator[None]:
        """A folder in which nothing was kept is removed at the end. Raises WorkflowError where another process works in
        it."""
        with self.of_disk():
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = (self.folder / "lock").open("w")
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise WorkflowError(f"Another `{self._command}` is at work in {self.folder}.") from error
            try:
                yield
            finally:
                if [one.name for one in self.folder.iterdir()] == ["lock"]:
                    (self.folder / "lock").unlink()
                    self.folder.rmdir()

    def write(self, file: Path, content: Mapping[str, Any]) -> None:
        """As JSON. A power cut leaves the old file or the new one."""
        with self.of_disk():
            draft = file.with_suffix(".draft")
            with draft.open("w", encoding="utf-8") as new_file:
                new_file.write(json.dumps(content, indent=1) + "\n")
                new_file.flush()
                os.fsync(new_file.fileno())
            draft.replace(file)

    def log(self, line: str) -> None:
        """A line of the log, with the time."""
        with self.of_disk(), (self.folder / "log.txt").open("a", encoding="utf-8") as log:
            log.write(f"{now()} {line}\n")

    @contextmanager
    def of_disk(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or error
            raise WorkflowError(f"{self.folder} cannot be used: {reason}. Name another folder.") from error


def now() -> str:
    """ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
