"""Engines for SQLite and PostgreSQL, each set up so that both behave alike, and migrations (extra `sql`)."""

import sqlite3
import zlib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, event, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from ratchet_kit.errors import FailedPrecondition

_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
_BUSY_TIMEOUT_MS = 30_000
_POSTGRES_LIMITS: Mapping[str, Any] = {
    "connect_timeout": 10,
    # a machine that is gone is noticed within a minute
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
_IDLE_TRANSACTION = "60s"


def async_url(url: str | URL) -> URL:
    """`url` with the async driver: `sqlite:///x.db` and `postgresql://...` may be written without one."""
    parsed = make_url(url)
    return parsed.set(drivername=_DRIVERS.get(parsed.drivername, parsed.drivername))


def create_engine(url: str | URL, **options: Any) -> AsyncEngine:
    """An engine for `url`; `options` are those of SQLAlchemy's create_async_engine. Release it by `dispose`.

    On PostgreSQL a connection is made within 10 s or not at all, unless the URL says otherwise, and a transaction in
    which nothing happens for 60 s is ended.

    On SQLite the file's folder is made, the journal is a WAL, foreign keys hold, and a transaction takes the write
    lock at its start and waits for it: one that begins by reading could otherwise fail with "database is locked" at
    its first write (https://www.sqlite.org/isolation.html). A connection with the execution option
    `read_only=True` does not take it.

    What it raises, which the logs have, shows no values: prompts and secrets are among them.
    """
    options = {"hide_parameters": True} | options
    parsed = async_url(url)
    if parsed.get_backend_name() != "sqlite":
        limits = {name: value for name, value in _POSTGRES_LIMITS.items() if name not in parsed.query}
        engine = create_async_engine(parsed, pool_pre_ping=True, connect_args=limits, **options)
        event.listen(engine.sync_engine, "connect", _configure_postgres)
        return engine

    if parsed.database and parsed.database != ":memory:":
        Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_async_engine(parsed, **options)
    event.listen(engine.sync_engine, "connect", _configure_sqlite)
    event.listen(engine.sync_engine, "begin", _begin_sqlite)
    return engine


async def migrate(url: str, package: str, revision: str = "head") -> None:
    """Brings the database up to a revision in `<package>/migrations/versions`, the newest unless one is given; safe to
    run from several at once.

    It needs no alembic.ini and no env.py. The revision is kept in a table of the package's own,
    `alembic_version_<package>`, so that services may share a database. Raises FailedPrecondition when the database is
    of a revision that the package does not have.
    """
    engine = create_engine(url)
    try:
        async with engine.begin() as connection:
            await connection.run_sync(upgrade, package, revision)
    finally:
        await engine.dispose()


def upgrade(connection: Connection, package: str, to: str = "head") -> None:
    """As `migrate`, in the connection's transaction."""
    if connection.dialect.name == "postgresql":  # SQLite's transaction holds the write lock already
        key = zlib.crc32(f"ratchet:{package}".encode())
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})
    with resources.as_file(resources.files(package) / "migrations") as folder:
        config = Config()
        config.set_main_option("script_location", str(folder).replace("%", "%%"))
        scripts = ScriptDirectory.from_config(config)

        def steps(revision: Any, _context: Any) -> Any:
            return scripts._upgrade_revs(to, revision)

        with EnvironmentContext(config, scripts, fn=steps) as environment:
            environment.configure(
                connection=connection, version_table=f"alembic_version_{package}", render_as_batch=True
            )
            try:
                environment.run_migrations()
            except CommandError as error:
                raise FailedPrecondition(
                    f"the database has tables of another version of {package} ({error}): run the version that made"
                    " them, or, if they are from before the first release, begin with an empty database"
                ) from error


def _configure_postgres(connection: Any, _record: Any) -> None:
    """A service that was stopped in the middle of a transaction does not keep its locks: others wait for them."""
    cursor = connection.cursor()
    cursor.execute(f"SET idle_in_transaction_session_timeout = '{_IDLE_TRANSACTION}'")
    connection.commit()
    cursor.close()


def _configure_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver begins no transactions of its own: `_begin_sqlite` does
    cursor = connection.cursor()
    for pragma in (
        f"busy_timeout = {_BUSY_TIMEOUT_MS}",
        "synchronous = NORMAL",
        "foreign_keys = ON",
        "secure_delete = ON",
    ):
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
