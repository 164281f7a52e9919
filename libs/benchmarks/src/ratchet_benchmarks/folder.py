"""Where benchmarks' data are kept: `RATCHET_DATA`, by default ~/.cache/ratchet/benchmarks.

<name>/<version>/rows.jsonl     the rows, as `rows.canonical` writes them
<name>/<version>/expected.json  what was computed from them
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ratchet_benchmarks import rows
from ratchet_benchmarks.benchmark import Benchmark, Edition
from ratchet_kit import files
from ratchet_kit.errors import DataLoss, NotFound

VARIABLE = "RATCHET_DATA"
_ROWS, _TRUTH = "rows.jsonl", "expected.json"


def root() -> Path:
    named = os.environ.get(VARIABLE)
    return Path(named).expanduser() if named else Path("~/.cache/ratchet/benchmarks").expanduser()


def of(benchmark: Benchmark, version: str) -> Path:
    return root() / benchmark.name / version


def editions(benchmark: Benchmark) -> list[Edition]:
    """The editions that are here: known ones first, in their order, then unknown ones, which were taken unchecked."""
    here = sorted(path.parent.name for path in (root() / benchmark.name).glob(f"*/{_ROWS}"))
    known = {edition.version: edition for edition in benchmark.editions}
    found = [edition for version, edition in known.items() if version in here]
    return found + [Edition(version, version) for version in here if version not in known]


def stamp(benchmark: Benchmark, edition: Edition) -> tuple[int, int]:
    """Changes where the data do."""
    folder = of(benchmark, edition.version)
    times = [path.stat().st_mtime_ns if path.exists() else 0 for path in (folder / _ROWS, folder / _TRUTH)]
    return times[0], times[1]


def read_rows(benchmark: Benchmark, edition: Edition) -> list[dict[str, Any]]:
    """Raises NotFound; DataLoss for data that are not what they were."""
    path = of(benchmark, edition.version) / _ROWS
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise NotFound(
            f"the data of {benchmark.name} are not here: run `ratchet data fetch {benchmark.name}`"
        ) from error
    if not hashlib.sha256(data).hexdigest().startswith(edition.digest):
        raise DataLoss(f"{path} is damaged: run `ratchet data fetch {benchmark.name}` again")
    return rows.lines(data)


def read_truth(benchmark: Benchmark, edition: Edition) -> Mapping[str, Any] | None:
    try:
        return dict(json.loads((of(benchmark, edition.version) / _TRUTH).read_text()))
    except FileNotFoundError:
        return None
    except ValueError:
        return None  # it is computed again


def write_rows(benchmark: Benchmark, edition: Edition, data: bytes) -> Path:
    folder = of(benchmark, edition.version)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / _ROWS, data)
    (folder / _TRUTH).unlink(missing_ok=True)
    return folder


def write_truth(benchmark: Benchmark, edition: Edition, truth: Mapping[str, Any]) -> None:
    _write(of(benchmark, edition.version) / _TRUTH, json.dumps(truth).encode())


def _write(path: Path, data: bytes) -> None:
    """All of it or nothing."""
    with files.whole(path) as draft, draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
