"""Databases for tests: a service's own stores on SQLite, in place of doubles that say every query twice."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import sqlalchemy

from ratchet_kit.sql import Database


@asynccontextmanager
async def empty_database(metadata: sqlalchemy.MetaData) -> AsyncIterator[Database]:
    """An SQLite database with these tables and no rows, as a file that goes at the end."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # a task that is cancelled may still write
        path = Path(folder) / "test.db"
        path.write_bytes(_file(metadata))
        database = Database(f"sqlite:///{path}")
        try:
            yield database
        finally:
            await database.dispose()


@cache
def _file(metadata: sqlalchemy.MetaData) -> bytes:
    """Made once: the tables of a service take 40 ms."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        engine = sqlalchemy.create_engine(f"sqlite:///{path}")
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
        metadata.create_all(engine)
        engine.dispose()
        return path.read_bytes()
