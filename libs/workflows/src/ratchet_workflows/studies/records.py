"""The folder of a study: its key, a log, a lock, the search's own journal, and what came of it.

Everything that a study creates has a request id made of its key and of what it asks for. So the record needs no ids: a
study that was killed asks again, and is given what there is.
"""

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from ratchet_workflows.errors import WorkflowError
from ratchet_workflows.kept_folder import KeptFolder, now


@dataclass(frozen=True, slots=True)
class Record:
    key: str
    plan: str
    """The digest of the plan."""
    bases: Mapping[str, str]
    """The meaning of bases' names when the study began, "starter" -> "starter@1": a champion may change meanwhile."""
    begin_time: str

    def request_id(self, spec: Message, purpose: str) -> str:
        digest = hashlib.sha256(spec.SerializeToString(deterministic=True)).hexdigest()[:24]
        return f"{self.key}-{digest}-{purpose}"


class StudyFolder(KeptFolder):
    def __init__(self, path: Path) -> None:
        super().__init__(path, "ratchet study")
        self.page = path / "report.html"
        self.results = path / "results.json"
        self.trials = path / "trials.log"
        """Optuna's journal."""

    def record(self) -> Record | None:
        """None before the study has begun."""
        file = self.folder / "study.json"
        if not file.exists():
            return None
        with self.of_disk():
            text = file.read_text(encoding="utf-8")
        try:
            values = json.loads(text)
            return Record(**{one.name: values[one.name] for one in fields(Record)})
        except (ValueError, TypeError, KeyError) as error:
            raise WorkflowError(f"{file} is not a record of a study: {error}. Move it away to begin anew.") from error

    def begin(self, plan: str, bases: Mapping[str, str]) -> Record:
        """Forgets what was there of another study."""
        record = Record(f"study-{secrets.token_hex(8)}", plan, bases, now())
        with self.of_disk():
            for old in (self.trials, self.results, self.page):
                old.unlink(missing_ok=True)
        self.write(self.folder / "study.json", asdict(record))
        return record

    def save_results(self, results: dict[str, Any]) -> None:
        self.write(self.results, results)
