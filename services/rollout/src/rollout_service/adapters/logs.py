"""The logs of engines: a file for each policy that was ever loaded, with those of runs and evaluations among them."""

import asyncio
from collections.abc import Collection
from datetime import datetime
from pathlib import Path

from ratchet_kit.log_files import EARLIER


async def remove(folder: Path, before: datetime, kept: Collection[str]) -> int:
    """Removes those that nothing was written to since then, but for the names in `kept`; how many."""
    return await asyncio.to_thread(_remove, folder, before.timestamp(), frozenset(kept))


def _remove(folder: Path, before: float, kept: frozenset[str]) -> int:
    files = [*folder.glob("*.log"), *folder.glob(f"*.log{EARLIER}")]
    old = [file for file in files if _policy(file) not in kept and file.stat().st_mtime < before]
    for file in old:
        file.unlink(missing_ok=True)
    return len(old)


def _policy(file: Path) -> str:
    return file.name.removesuffix(EARLIER).removesuffix(".log")
