"""What a workflow keeps, in memory."""

import json
from collections.abc import Mapping
from typing import Any

from ratchet_workflows.progress import Lines


class MemoryKept:
    """`ratchet_workflows.kept.Kept`, and the lines that were said."""

    def __init__(self, id: str = "flow_1") -> None:
        self.id = id
        self.lines: list[str] = []
        self.progress = Lines(self.lines.append)
        self._saved = "{}"

    def read(self) -> Mapping[str, Any]:
        saved: Mapping[str, Any] = json.loads(self._saved)
        return saved

    def save(self, record: Mapping[str, Any]) -> None:
        self._saved = json.dumps(record)
