"""SQL: the same code on SQLite and PostgreSQL, migrations at start, and times that are always aware (extra `sql`)."""

import sqlite3
import zlib
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, DateTime, Dialect, event, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.types import TypeDecorator

_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
_BUSY_TIMEOUT_MS = 30_000


class UtcDateTime(TypeDecorator[datetime]):
    """An aware time, given back in UTC. SQLite keeps no zone, so it is stored there as UTC without one.

    Raises:
        ValueError: a naive time is stored.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone")
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def async_url(url: str) -> URL:
    """`url` with the async driver: `sqlite:///x.db` and `postgresql://...` may be written without one."""
    parsed = make_url(url)
    return parsed.set(drivername=_DRIVERS.get(parsed.drivername, parsed.drivername))


def create_engine(url: str, **options: Any) -> AsyncEngine:
    """An engine for `url`; `options` are those of SQLAlchemy's create_async_engine. Release it by `dispose`.

    On SQLite the file's folder is made, the journal is a WAL, foreign keys hold, and a transaction takes the write
    lock at its start and waits for it: one that begins by reading could otherwise fail with "database is locked" at
    its first write (https://www.sqlite.org/isolation.html). A connection with the execution option
    `read_only=True` does not take it.
    """
    parsed = async_url(url)
    if parsed.get_backend_name() != "sqlite":
        return create_async_engine(parsed, pool_pre_ping=True, **options)

    if parsed.database and parsed.database != ":memory:":
        Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_async_engine(parsed, **options)
    event.listen(engine.sync_engine, "connect", _configure_sqlite)
    event.listen(engine.sync_engine, "begin", _begin_sqlite)
    return engine


async def migrate(url: str, package: str) -> None:
    """Brings the database to the newest revision in `<package>/migrations/versions`; safe to run from several at once.

    It needs no alembic.ini and no env.py. The revision is kept in a table of the package's own,
    `alembic_version_<package>`, so that services may share a database.
    """
    engine = create_engine(url)
    try:
        async with engine.begin() as connection:
            await connection.run_sync(_upgrade, package)
    finally:
        await engine.dispose()


def _upgrade(connection: Connection, package: str) -> None:
    if connection.dialect.name == "postgresql":  # SQLite's transaction holds the write lock already
        key = zlib.crc32(f"ratchet:{package}".encode())
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})
    with resources.as_file(resources.files(package) / "migrations") as folder:
        config = Config()
        config.set_main_option("script_location", str(folder).replace("%", "%%"))
        scripts = ScriptDirectory.from_config(config)

        def steps(revision: Any, _context: Any) -> Any:
            return scripts._upgrade_revs("head", revision)

        with EnvironmentContext(config, scripts, fn=steps) as environment:
            environment.configure(
                connection=connection, version_table=f"alembic_version_{package}", render_as_batch=True
            )
            environment.run_migrations()


def _configure_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver begins no transactions of its own: `_begin_sqlite` does
    cursor = connection.cursor()
    for pragma in (f"busy_timeout = {_BUSY_TIMEOUT_MS}", "synchronous = NORMAL", "foreign_keys = ON"):
        cursor.execute(f"PRAGMA {pragma}")
    try:
        cursor.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        # No timeout holds for this one. It is a property of the file: whoever has it locked is about to set it.
        if error.sqlite_errorcode not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    read_only = connection.get_execution_options().get("read_only", False)
    connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")
