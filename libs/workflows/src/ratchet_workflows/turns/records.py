"""The record of turns, in a folder of its own: a file for each turn, a log, and a lock.

The file of a turn has the id of each stage as soon as it is known. What a stage creates is created under a request id
that is made of the turn's key, so that nothing is lost or made twice by who is killed before he wrote an id down.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from ratchet_workflows.errors import WorkflowError
from ratchet_workflows.kept_folder import KeptFolder, now


class State(StrEnum):
    """FAILED: a stage could not be carried out, and may be taken up again. All others but RUNNING are decisions."""

    RUNNING = "running"
    RELEASED = "released"
    REFUSED = "refused"
    ROLLED_BACK = "rolled_back"
    FAILED = "failed"

    @property
    def is_open(self) -> bool:
        """It can go on."""
        return self in (State.RUNNING, State.FAILED)


@dataclass(frozen=True, slots=True)
class Record:
    """One turn. Versions are numbers of `model`; what is not known yet is 0 or empty."""

    number: int
    key: str
    plan: str
    """The digest of the plan."""
    model: str
    champion: int
    """The version to beat: the champion when the turn began, or when the gate was made."""
    base: int
    """The champion when the turn began."""
    due: str = ""
    """The reason that it began: its period, such as "7d-2947"; empty for a person."""
    pairs: str = ""
    """The data set of traffic that it learns from, such as "traffic-starter@3/train"."""
    run: str = ""
    candidate: int = 0
    evaluations: Mapping[str, str] = field(default_factory=dict)
    """Version -> its evaluation, "starter@2" -> "eval_..."."""
    gate: str = ""
    release: str = ""
    state: State = State.RUNNING
    sentence: str = ""
    """How it ended, and the reason."""
    begin_time: str = ""
    """ISO 8601, UTC."""
    end_time: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Turns(KeptFolder):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "ratchet improve")

    def latest(self) -> Record | None:
        numbers = [file.stem.removeprefix("turn-") for file in self.folder.glob("turn-*.json")]
        latest = max((int(number) for number in numbers if number.isdecimal()), default=0)
        return self._read(latest) if latest else None

    def begin(self, plan: str, model: str, champion: int, due: str = "", pairs: str = "") -> Record:
        before = self.latest()
        return self.save(
            Record(
                number=before.number + 1 if before else 1,
                key=f"improve-{secrets.token_hex(8)}",
                plan=plan,
                model=model,
                champion=champion,
                base=champion,
                due=due,
                pairs=pairs,
                begin_time=now(),
            )
        )

    def save(self, record: Record) -> Record:
        """The same record."""
        self.write(self._file(record.number), record.to_json())
        return record

    def page(self, record: Record, what: str = "") -> Path:
        """Where a page about a turn goes."""
        return self.folder / f"turn-{record.number}{what}.html"

    def _file(self, number: int) -> Path:
        return self.folder / f"turn-{number}.json"

    def _read(self, number: int) -> Record:
        file = self._file(number)
        with self.of_disk():
            text = file.read_text(encoding="utf-8")
        known = {one.name for one in fields(Record)}
        try:
            values = {name: value for name, value in json.loads(text).items() if name in known}
            return Record(**values | {"state": State(values["state"])})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise WorkflowError(f"{file} is not a record of a turn: {error}. Move it away to begin anew.") from error
