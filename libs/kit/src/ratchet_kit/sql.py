"""SQL: the same code on SQLite and PostgreSQL, transactions, times that are always aware (extra `sql`)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar, cast

from sqlalchemy import (
    Column,
    ColumnElement,
    CompoundSelect,
    CursorResult,
    DateTime,
    Dialect,
    Integer,
    Row,
    Select,
    String,
    Table,
    exc,
    or_,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.types import TypeDecorator

from ratchet_kit.idempotency import MAX_ID, Request
from ratchet_kit.sql_engine import create_engine, migrate
from ratchet_kit.sql_errors import sql_errors
from ratchet_kit.work import Hold, surviving

R = TypeVar("R")
MIGRATION_LIMIT = timedelta(hours=1)


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


class Database:
    """Transactions on an engine. Every method raises what `sql_errors` says: Unavailable while the database is away,
    too busy or takes no writes, InvalidArgument for a value that it cannot hold."""

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
            async with sql_errors(MIGRATION_LIMIT):
                await bring_up_to_date()
        database = cls(url, prepare=bring_up_to_date if lazy else None)
        try:
            yield database
        finally:
            await database.dispose()

    async def dispose(self) -> None:
        """Closes the connections."""
        await self._engine.dispose()

    async def wipe(self) -> None:
        """Takes what was deleted out of SQLite's write-ahead log, which keeps old pages until it begins anew. Where
        somebody reads for longer than a lock is waited for, some pages stay until the next time. Other databases look
        after their logs themselves."""
        if self._engine.dialect.name != "sqlite":
            return
        await self._prepared()
        async with sql_errors(), self._engine.connect() as connection:
            raw = (await connection.get_raw_connection()).driver_connection
            assert raw is not None
            async with raw.execute("PRAGMA wal_checkpoint(TRUNCATE)"):
                pass

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A connection that only reads."""
        await self._prepared()
        async with sql_errors():
            async with self._reader.connect() as connection:
                yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """One transaction: committed at the end, rolled back by whatever is raised inside."""
        await self._prepared()
        async with sql_errors():
            async with self._engine.begin() as connection:
                yield connection

    async def first(self, query: Select[Any]) -> Row[Any] | None:
        """The first row, None when there is none."""
        async with self.reading() as connection:
            row: Row[Any] | None = (await connection.execute(query)).first()
            return row

    async def rows(self, query: Select[Any] | CompoundSelect[Any]) -> Sequence[Row[Any]]:
        """All rows."""
        async with self.reading() as connection:
            rows: Sequence[Row[Any]] = (await connection.execute(query)).all()
            return rows

    async def readable(
        self, query: Select[Any], read: Callable[[Row[Any]], R], limit: int | None = None
    ) -> Sequence[R]:
        """What `read` makes of the rows, without those that cannot be read: one that another version of the service
        wrote, say, hides no other from background work and in lists. Each is logged and counted.

        `limit`: the most that are given, out of as many rows as it takes; the query has none of its own then.
        """
        found = list[R]()
        seen = 0
        while True:
            wanted = None if limit is None else limit - len(found)
            async with self.reading() as connection:
                result = await connection.execute(query if wanted is None else query.limit(wanted).offset(seen))
                rows = read_each(result, read, found)
            seen += rows
            if wanted is None or rows < wanted or len(found) == limit:
                return found

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
                async with sql_errors(MIGRATION_LIMIT):
                    await self._prepare()
                self._prepare = None


def row_of(value: Any, table: Table, /, **columns: Any) -> dict[str, Any]:
    """The row of a dataclass: its fields that the table has a column of the same name for, and `columns`."""
    return {one.name: getattr(value, one.name) for one in fields(value) if one.name in table.c} | columns


def value_of(kind: type[R], row: Row[Any], /, **values: Any) -> R:
    """The dataclass of a row: its fields that the row has a column of the same name for, and `values`."""
    names = {one.name for one in fields(cast(Any, kind))} & row._mapping.keys() - values.keys()
    return kind(**{name: row._mapping[name] for name in names}, **values)


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


async def insert_all_if_absent(
    connection: AsyncConnection,
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    returning: Column[Any] | None = None,
) -> Sequence[Any]:
    """As `insert_if_absent`, of many rows, quickly. That column of those that were inserted, when it is asked for."""
    if not rows:
        return ()
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    insertion, values = dialect.insert(table).on_conflict_do_nothing(), [dict(row) for row in rows]
    if returning is None:
        await connection.execute(insertion, values)
        return ()
    return (await connection.execute(insertion.returning(returning), values)).scalars().all()


async def upsert(connection: AsyncConnection, table: Table, row: Mapping[str, Any]) -> None:
    """Inserts the row, or replaces the values of the one that has its primary key."""
    keys = [column.name for column in table.primary_key]
    values = {name: value for name, value in row.items() if name not in keys}
    insertion = _insert(connection, table, row)
    await connection.execute(insertion.on_conflict_do_update(index_elements=keys, set_=values))


def _insert(connection: AsyncConnection, table: Table, rows: Any) -> Any:
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql  # both know ON CONFLICT, each its own
    return dialect.insert(table).values(rows)


def read_each(result: CursorResult[Any], read: Callable[[Row[Any]], R], found: list[R]) -> int:
    """Adds what can be read to `found`. How many rows there were."""
    number = 0
    while True:
        try:
            row = result.fetchone()
        except exc.SQLAlchemyError:  # that is no row's fault
            raise
        except Exception:  # a column that holds no JSON, say: the driver cannot read it
            with surviving("read row", number=number):
                raise
        else:
            if row is None:
                return number
            with surviving("read row", key=str(row[0])):
                found.append(read(row))
        number += 1
