"""The folder of a study: its key, a log, a lock, the search's own journal, and what came of it.

Everything that a study creates has a request id made of its key and of what it asks for. So the record needs no ids: a
study that was killed asks again, and is given what there is.
"""

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from ratchet_cli.terminal.errors import CommandError


@dataclass(frozen=True, slots=True)
class Record:
    key: str
    plan: str
    """The digest of the plan."""
    bases: Mapping[str, str]
    """What bases meant when the study began, "starter" -> "starter@1": a champion may change meanwhile."""
    begin_time: str

    def request_id(self, spec: Message, purpose: str) -> str:
        digest = hashlib.sha256(spec.SerializeToString(deterministic=True)).hexdigest()[:24]
        return f"{self.key}-{digest}-{purpose}"


class StudyFolder:
    """Its methods raise CommandError when it cannot be read or written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.page = path / "report.html"
        self.results = path / "results.json"
        self.trials = path / "trials.log"
        """Optuna's journal."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Raises CommandError where another process works in the folder."""
        with self._of_disk():
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / "lock").open("w")
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise CommandError(f"Another `ratchet study` is at work in {self.path}.") from error
            yield

    def record(self) -> Record | None:
        """None before the study has begun."""
        file = self.path / "study.json"
        if not file.exists():
            return None
        with self._of_disk():
            text = file.read_text(encoding="utf-8")
        try:
            values = json.loads(text)
            return Record(**{one.name: values[one.name] for one in fields(Record)})
        except (ValueError, TypeError, KeyError) as error:
            raise CommandError(f"{file} is no record of a study: {error}. Move it away to begin anew.") from error

    def begin(self, plan: str, bases: Mapping[str, str]) -> Record:
        """Forgets what was there of another study."""
        record = Record(f"study-{secrets.token_hex(8)}", plan, bases, _now())
        with self._of_disk():
            for old in (self.trials, self.results, self.page):
                old.unlink(missing_ok=True)
        self._write(self.path / "study.json", asdict(record))
        return record

    def save_results(self, results: dict[str, Any]) -> None:
        self._write(self.results, results)

    def log(self, line: str) -> None:
        """A line of the log, with the time."""
        with self._of_disk(), (self.path / "log.txt").open("a", encoding="utf-8") as log:
            log.write(f"{_now()} {line}\n")

    def _write(self, file: Path, content: dict[str, Any]) -> None:
        """A power cut leaves the old file or the new one."""
        with self._of_disk():
            draft = file.with_suffix(".draft")
            with draft.open("w", encoding="utf-8") as new_file:
                new_file.write(json.dumps(content, indent=1) + "\n")
                new_file.flush()
                os.fsync(new_file.fileno())
            draft.replace(file)

    @contextmanager
    def _of_disk(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CommandError(
                f"{self.path} cannot be used: {error.strerror or error}. Name another by --folder."
            ) from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
