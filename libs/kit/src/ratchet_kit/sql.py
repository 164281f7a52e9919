"""SQL: the same code on SQLite and PostgreSQL, transactions, migrations, times that are always aware (extra `sql`)."""

import asyncio
import sqlite3
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    DateTime,
    Dialect,
    Integer,
    Row,
    Select,
    String,
    Table,
    event,
    exc,
    make_url,
    or_,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.types import TypeDecorator

from ratchet_kit.errors import Unavailable
from ratchet_kit.idempotency import MAX_ID, Request
from ratchet_kit.work import Hold

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


def async_url(url: str | URL) -> URL:
    """`url` with the async driver: `sqlite:///x.db` and `postgresql://...` may be written without one."""
    parsed = make_url(url)
    return parsed.set(drivername=_DRIVERS.get(parsed.drivername, parsed.drivername))


def create_engine(url: str | URL, **options: Any) -> AsyncEngine:
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


class Database:
    """Transactions on an engine. Every method raises Unavailable while the database is away or too busy; what is
    wrong for good, such as a table that is missing, stays SQLAlchemy's error."""

    def __init__(
        self, engine: AsyncEngine | URL | str, *, prepare: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """`prepare` runs before the first use, and again until it has not raised: see `opened`."""
        self._engine = engine if isinstance(engine, AsyncEngine) else create_engine(engine)
        self._reader = self._engine.execution_options(read_only=True)
        self._prepare = prepare
        self._preparing = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def opened(cls, url: str, package: str, *, lazy: bool = False) -> AsyncIterator["Database"]:
        """The database at `url` with the newest tables of `package`; its connections are closed at the end.

        `lazy` brings the tables up to date at the first use and not now: the service starts without the database.
        """
        bring_up_to_date = partial(migrate, url, package)
        if not lazy:
            with database_errors():
                await bring_up_to_date()
        database = cls(url, prepare=bring_up_to_date if lazy else None)
        try:
            yield database
        finally:
            await database.dispose()

    async def dispose(self) -> None:
        """Closes the connections."""
        await self._engine.dispose()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A connection that only reads."""
        with database_errors():
            await self._prepared()
            async with self._reader.connect() as connection:
                yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """One transaction: committed at the end, rolled back by whatever is raised inside."""
        with database_errors():
            await self._prepared()
            async with self._engine.begin() as connection:
                yield connection

    async def first(self, query: Select[Any]) -> Row[Any] | None:
        """The first row, None when there is none."""
        async with self.reading() as connection:
            row: Row[Any] | None = (await connection.execute(query)).first()
            return row

    async def rows(self, query: Select[Any]) -> Sequence[Row[Any]]:
        """All rows."""
        async with self.reading() as connection:
            rows: Sequence[Row[Any]] = (await connection.execute(query)).all()
            return rows

    async def insert_if_absent(self, table: Table, row: Mapping[str, Any]) -> bool:
        """`insert_if_absent` in a transaction of its own."""
        async with self.writing() as connection:
            return await insert_if_absent(connection, table, row) == 1

    async def made_by(self, request: Request, query: Select[Any], what: str) -> Row[Any] | None:
        """The row of `query` that the request made; the query selects what `request_columns` gave the table.

        Raises AlreadyExists when the request's id was used to ask for another `what`.
        """
        row = await self.first(query.where(query.selected_columns.request_id == request.key))
        if row is not None:
            request.check_same(row.fingerprint, what)
        return row

    async def _prepared(self) -> None:
        if self._prepare is None:
            return
        async with self._preparing:
            if self._prepare is not None:
                await self._prepare()
                self._prepare = None


def request_columns() -> tuple[Column[str], Column[str]]:
    """The columns of a table whose rows are made by requests, for `ratchet_kit.idempotency.Request.columns`."""
    return (
        Column("request_id", String(MAX_ID), nullable=False, unique=True),
        Column("fingerprint", String(64), nullable=False),
    )


def hold_columns() -> tuple[Column[str], Column[datetime], Column[int]]:
    """The columns of a table whose rows workers hold, for `hold_row` and `hold_of`."""
    return (
        Column("held_by", String(200), nullable=False),
        Column("held_until", UtcDateTime),
        Column("attempts", Integer, nullable=False),
    )


def hold_row(hold: Hold) -> dict[str, Any]:
    return {"held_by": hold.owner, "held_until": hold.until, "attempts": hold.attempts}


def hold_of(row: Row[Any]) -> Hold:
    return Hold(row.held_by, row.held_until, row.attempts)


def is_free(table: Table, now: datetime) -> ColumnElement[bool]:
    """That no living worker holds a row of the table."""
    return or_(table.c.held_by == "", table.c.held_until <= now)


async def insert_if_absent(
    connection: AsyncConnection, table: Table, rows: Mapping[str, Any] | Sequence[Mapping[str, Any]]
) -> int:
    """Inserts the row, or each of the rows, unless its key or a unique column is taken. How many were inserted."""
    if not rows:
        return 0
    insertion = _insert(connection, table, rows).on_conflict_do_nothing().returning(*table.primary_key)
    return len((await connection.execute(insertion)).all())


async def insert_all_if_absent(connection: AsyncConnection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """As `insert_if_absent`, of many rows, quickly: how many were inserted is not known."""
    if rows:
        dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
        await connection.execute(dialect.insert(table).on_conflict_do_nothing(), [dict(row) for row in rows])


async def upsert(connection: AsyncConnection, table: Table, row: Mapping[str, Any]) -> None:
    """Inserts the row, or replaces the values of the one that has its primary key."""
    keys = [column.name for column in table.primary_key]
    values = {name: value for name, value in row.items() if name not in keys}
    insertion = _insert(connection, table, row)
    await connection.execute(insertion.on_conflict_do_update(index_elements=keys, set_=values))


def _insert(connection: AsyncConnection, table: Table, rows: Any) -> Any:
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql  # both know ON CONFLICT, each its own
    return dialect.insert(table).values(rows)


@contextmanager
def database_errors() -> Iterator[None]:
    """Raises Unavailable in place of what SQLAlchemy raises when the database is away, ends the connection, or is
    busy: locked, out of connections, in a deadlock. The rest passes: sending it again would change nothing."""
    try:
        yield
    except exc.TimeoutError as error:
        raise Unavailable("the database is busy: no connection to it became free in time") from error
    except exc.DisconnectionError as error:
        raise Unavailable("the connection to the database broke") from error
    except exc.DBAPIError as error:
        if not _may_pass(error):
            raise
        raise Unavailable(f"the database cannot be used now: {' '.join(str(error.orig).split())}") from error


def _may_pass(error: exc.DBAPIError) -> bool:
    if error.connection_invalidated:
        return True
    if isinstance(error.orig, sqlite3.Error):
        # SQLite calls a missing table an operational error, too: its plain SQLITE_ERROR.
        code = getattr(error.orig, "sqlite_errorcode", sqlite3.SQLITE_BUSY) & 0xFF
        return isinstance(error.orig, sqlite3.OperationalError) and code != sqlite3.SQLITE_ERROR
    return isinstance(error, exc.OperationalError | exc.InterfaceError)


async def migrate(url: str, package: str, revision: str = "head") -> None:
    """Brings the database up to a revision in `<package>/migrations/versions`, the newest unless one is given; safe to
    run from several at once.

    It needs no alembic.ini and no env.py. The revision is kept in a table of the package's own,
    `alembic_version_<package>`, so that services may share a database.
    """
    engine = create_engine(url)
    try:
        async with engine.begin() as connection:
            await connection.run_sync(_upgrade, package, revision)
    finally:
        await engine.dispose()


def _upgrade(connection: Connection, package: str, to: str) -> None:
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
