"""A service's migrations make the tables that its stores use, and its rows can be copied from SQLite to PostgreSQL."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from ratchet_kit import projects
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.ids import new_id
from ratchet_kit.sql import UtcDateTime
from ratchet_kit.sql_copy import copy
from ratchet_kit.sql_engine import migrate

TABLES = {
    "eval_service": "adapters.tables",
    "gateway_service": "adapters.sql.tables",
    "registry_service": "adapters.sql.tables",
    "sandbox_service": "adapters.batches.tables",
    "trainer_service": "adapters.tables",
}


@pytest.mark.integration
@pytest.mark.parametrize("package", TABLES)
async def test_migrations_make_what_the_stores_use(package: str, database_url: str) -> None:
    await migrate(database_url, package)
    metadata = metadata_of(package)
    with connected(database_url) as connection:
        options: dict[str, Any] = {"include_name": lambda name, kind, _: kind != "table" or name in metadata.tables}
        if connection.dialect.name == "sqlite":  # its texts have no bound, so no migration changes one
            options["compare_type"] = lambda context, column, told, there, wanted: (
                False if isinstance(there, sa.String) and isinstance(wanted, sa.String) else None
            )
        differences = compare_metadata(MigrationContext.configure(connection, opts=options), metadata)
    assert metadata.tables
    assert differences == []


@pytest.mark.parametrize("package", TABLES)
def test_ids_of_projects_of_the_longest_name_fit_their_columns(package: str) -> None:
    sources = (Path(__file__).parents[2] / "services").glob("*/src/**/*.py")
    prefixes = {found for path in sources for found in re.findall(r"new_id\(\"(\w+)\"\)", path.read_text())}
    longest = "p" * 20
    assert projects.is_name(longest)
    assert not projects.is_name(longest + "p")
    with projects.acting(longest):
        needed = max(len(new_id(prefix)) for prefix in prefixes)
    columns = [column for table in metadata_of(package).sorted_tables for column in table.c]
    too_short = [
        str(column)
        for column in columns
        if re.fullmatch(r"(\w+_)?(id|actor)", column.name)
        and isinstance(column.type, sa.String)
        and (column.type.length or needed) < needed
    ]
    assert len(prefixes) > 10
    assert too_short == []


def test_every_service_with_migrations_is_here() -> None:
    services = Path(__file__).parents[2] / "services"
    assert {path.parent.name for path in services.glob("*/src/*/migrations")} == set(TABLES)


@pytest.mark.integration
@pytest.mark.parametrize("package", TABLES)
async def test_rows_are_copied(package: str, sqlite_url: str, postgres_url: str) -> None:
    await migrate(sqlite_url, package)
    tables = metadata_of(package).sorted_tables
    with connected(sqlite_url) as connection:
        for table in tables:
            connection.execute(table.insert(), [row_of(table, number) for number in (1, 2, 3)])
    told = dict[str, int]()
    copy(package, sqlite_url, postgres_url, told.__setitem__)
    assert told.keys() == {table.name for table in tables}
    assert min(told.values()) >= 3  # a migration may put rows there
    with connected(sqlite_url) as old, connected(postgres_url) as new:
        for table in tables:
            assert read(new, table) == read(old, table)
        for table, column in numbered(tables, new):
            row = row_of(table, 3)
            del row[column.name]
            assert new.execute(table.insert().returning(column), row).scalar() == 4
    with pytest.raises(FailedPrecondition, match=f"the target has tables of {package}: name a new database"):
        copy(package, sqlite_url, postgres_url, told.__setitem__)


@pytest.mark.integration
async def test_what_another_service_has_in_the_same_database_stays(sqlite_url: str, postgres_url: str) -> None:
    first, second = "eval_service", "sandbox_service"
    for package in (first, second):
        await migrate(sqlite_url, package)
        with connected(sqlite_url) as connection:
            for table in metadata_of(package).sorted_tables:
                connection.execute(table.insert(), [row_of(table, 1)])
    told = dict[str, int]()
    copy(first, sqlite_url, postgres_url, told.__setitem__)
    table = metadata_of(first).sorted_tables[0]
    with connected(postgres_url) as new:
        new.execute(table.insert(), [row_of(table, 2)])
    told.clear()
    copy(second, sqlite_url, postgres_url, told.__setitem__)
    assert told.keys() == metadata_of(second).tables.keys()
    with connected(postgres_url) as new:
        assert len(read(new, table)) == 2


@pytest.mark.integration
def test_rows_of_another_revision_are_not_copied(sqlite_url: str, postgres_url: str) -> None:
    with pytest.raises(FailedPrecondition, match="is of revision none of trainer_service, not trainer_"):
        copy("trainer_service", sqlite_url, postgres_url, lambda table, rows: None)


def metadata_of(package: str) -> sa.MetaData:
    found: sa.MetaData = import_module(f"{package}.{TABLES[package]}").metadata
    return found


@contextmanager
def connected(url: str) -> Iterator[sa.Connection]:
    driver = "sqlite" if url.startswith("sqlite") else "postgresql+psycopg"
    engine = sa.create_engine(sa.make_url(url).set(drivername=driver))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def row_of(table: sa.Table, number: int) -> dict[str, Any]:
    """A row with a value of its kind in each column; equal numbers are equal values, so that rows refer to one
    another."""
    return {column.name: value_of(column, number) for column in table.c}


def value_of(column: sa.Column[Any], number: int) -> Any:
    match column.type:
        case UtcDateTime():
            return datetime(2026, 11, number, tzinfo=UTC) + timedelta(microseconds=number)
        case sa.JSON():
            return [{"é": [None, 0.1 + 0.2]}, None, []][number % 3]
        case sa.LargeBinary():
            return bytes([0, number])
        case sa.Boolean():
            return number == 1
        case sa.Float():
            return number / 3
        case sa.Integer():
            return number
        case _:
            return f"é{number}"


def read(connection: sa.Connection, table: sa.Table) -> list[tuple[Any, ...]]:
    """The rows, JSON as it is written."""
    columns = [
        sa.cast(column, sa.Text).label(column.name) if isinstance(column.type, sa.JSON) else column
        for column in table.c
    ]
    found = connection.execute(sa.select(*columns))
    return sorted((tuple(row) for row in found), key=str)


def numbered(tables: list[sa.Table], connection: sa.Connection) -> list[tuple[sa.Table, sa.Column[Any]]]:
    """Columns that the database numbers."""
    return [
        (table, column)
        for table in tables
        for column in table.c
        if isinstance(column.type, sa.Integer)
        and connection.scalar(sa.select(sa.func.pg_get_serial_sequence(table.name, column.name)))
    ]
