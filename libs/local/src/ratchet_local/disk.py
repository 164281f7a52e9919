"""The disk that a platform's folder takes, by what lies there."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ratchet_local.home import Home

KINDS: Mapping[str, str] = {
    "artifacts": "versions, data sets, rewards: ratchet models delete, data delete",
    "datasets": "data sets that were read: remade when needed",
    "db": "databases",
    "logs": "logs of services",
    "models": "models that you brought",
    "problems": "problems that you brought",
    "redis": "queues",
    "rollout": "weights and logs of engines: remade when needed",
    "runs": "checkpoints, exports and samples of runs: ratchet runs delete",
}
"""Entry of the folder -> what it holds, and what makes it smaller."""


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    kind: str
    """Empty for what is not the platform's own."""
    size: int
    """Bytes that its blocks take; a file of several names counts where it is found first."""
    files: int


def entries(home: Home) -> list[Entry]:
    """The largest first. What goes meanwhile is left out."""
    seen = set[tuple[int, int]]()
    found = [_entry(path, seen) for path in sorted(home.path.iterdir())] if home.path.is_dir() else []
    return sorted(found, key=lambda entry: -entry.size)


def _entry(path: Path, seen: set[tuple[int, int]]) -> Entry:
    size = files = 0
    paths = [path]
    if path.is_dir() and not path.is_symlink():
        paths = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    for one in paths:
        try:
            stat = one.lstat()
        except FileNotFoundError:
            continue
        if (stat.st_dev, stat.st_ino) not in seen:
            seen.add((stat.st_dev, stat.st_ino))
            size, files = size + stat.st_blocks * 512, files + 1
    return Entry(path.name, KINDS.get(path.name, ""), size, files)
