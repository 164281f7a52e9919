"""The tables of a service on SQLite."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ratchet_kit.sql import Database

_files: dict[str, bytes] = {}


@asynccontextmanager
async def empty_database(package: str) -> AsyncIterator[Database]:
    """An SQLite database with the tables of `package` and no rows."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # a task that is cancelled may still write
        path = Path(folder) / "test.db"
        if package not in _files:
            _files[package] = await _migrated(path, package)
        path.write_bytes(_files[package])
        database = Database(f"sqlite:///{path}")
        try:
            yield database
        finally:
            await database.dispose()


async def _migrated(path: Path, package: str) -> bytes:
    """Made once a process: the migrations of a service take half a second."""
    async with Database.opened(f"sqlite:///{path}", package) as database:
        await database.wipe()
    return path.read_bytes()  # noqa: ASYNC240
