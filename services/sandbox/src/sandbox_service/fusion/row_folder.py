"""The rows of data sets that lie in a folder: `<dataset>.jsonl`, a row a line, each with an `id` (or `task_id`)."""

import re
from pathlib import Path
from typing import Any

from ratchet_kit import json_text, syntax
from ratchet_kit.errors import FailedPrecondition, InvalidArgument, NotFound

_NAME = re.compile(r"[\w][\w.-]{0,100}")


class RowFolder:
    """Files are read when first asked for, and again when they have changed."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._read: dict[str, tuple[float, dict[str, dict[str, Any]]]] = {}

    def names(self) -> list[str]:
        return sorted(file.stem for file in self._folder.glob("*.jsonl")) if self._folder else []

    def row(self, dataset: str, row_id: int | str) -> dict[str, Any]:
        """Raises FailedPrecondition without a folder, NotFound, InvalidArgument for a file that isn't JSON lines."""
        if self._folder is None:
            raise FailedPrecondition(
                "no data sets lie here: send the row as config.provided_data, or put "
                f"{dataset}.jsonl into a folder and name it in RATCHET_SANDBOX_DATASETS_DIR"
            )
        file = self._folder / f"{dataset}.jsonl"
        if not _NAME.fullmatch(dataset) or not file.is_file():
            raise NotFound(f"{self._folder} holds no {dataset}.jsonl: it holds {', '.join(self.names()) or 'none'}")
        rows = self._rows(dataset, file)
        if str(row_id) not in rows:
            raise NotFound(f"{file.name} has no row {row_id!r}")
        return rows[str(row_id)]

    def _rows(self, dataset: str, file: Path) -> dict[str, dict[str, Any]]:
        changed = file.stat().st_mtime
        known = self._read.get(dataset)
        if known is None or known[0] != changed:
            known = self._read[dataset] = (changed, _parse(file))
        return known[1]


def _parse(file: Path) -> dict[str, dict[str, Any]]:
    rows = {}
    for number, line in enumerate(file.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = json_text.read(line)
        except json_text.NotJson as error:
            raise InvalidArgument(f"{file.name}, line {number}: {error}") from None
        if not isinstance(row, dict) or not {"id", "task_id"} & row.keys():
            raise InvalidArgument(f"{file.name}, line {number}: an object with an id (or task_id) is needed")
        id = row.get("id", row.get("task_id"))
        rows[id if isinstance(id, str) else syntax.write(id)] = row
    return rows
