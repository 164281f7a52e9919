"""Files of JSON, a row a line; gzipped where their name ends in `.gz`."""

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal


def write(rows: Iterable[Mapping[str, Any]], path: str | Path) -> int:
    """Row by row, as they come. How many there were. Raises OSError."""
    count = 0
    with opened(Path(path), "wt") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
            count += 1
    return count


@contextmanager
def opened(path: Path, mode: Literal["rt", "wt"]) -> Iterator[IO[str]]:
    """Opens a file of JSON lines, gzipped or not. A byte-order mark at its start is skipped."""
    encoding = "utf-8-sig" if mode == "rt" else "utf-8"
    if path.name.endswith(".gz"):
        with gzip.open(path, mode, encoding=encoding) as file:
            yield file
    else:
        with path.open(mode, encoding=encoding) as file:
            yield file
