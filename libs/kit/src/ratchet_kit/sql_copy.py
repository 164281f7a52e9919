"""A service's rows from SQLite to PostgreSQL: `python -m ratchet_kit.sql_copy PACKAGE FROM TO` (extra `sql`).

The service has stopped.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    Column,
    Connection,
    Insert,
    Integer,
    MappingResult,
    MetaData,
    Table,
    Text,
    bindparam,
    cast,
    create_engine,
    exc,
    func,
    inspect,
    select,
    text,
)

from ratchet_kit.errors import FailedPrecondition, RatchetError
from ratchet_kit.sql_engine import async_url, upgrade

BATCH = 1000
Progress = Callable[[str, int], None]
"""Hears of each table how many rows it has got."""


def copy(package: str, source: str, target: str, progress: Progress) -> None:
    """Makes the package's tables, and all their rows, in one transaction. URLs as in DATABASE_URL.

    Raises FailedPrecondition when the source is not of the package's newest revision, and when the target has tables of
    the package.
    """
    from_engine = create_engine(async_url(source).set(drivername="sqlite"))
    to_engine = create_engine(async_url(target).set(drivername="postgresql+psycopg"), hide_parameters=True)
    version = f"alembic_version_{package}"
    try:
        with from_engine.connect() as old, to_engine.begin() as new:
            if _revision(new, version):
                raise FailedPrecondition(f"the target has tables of {package}: name a new database")
            others = set(inspect(new).get_table_names())  # services may share a database
            upgrade(new, package)
            if (made := _revision(old, version)) != (needed := _revision(new, version)):
                raise FailedPrecondition(
                    f"{source} is of revision {made or 'none'} of {package}, not {needed}: start this version of the "
                    "service on it once, and stop it"
                )
            tables = _tables(new, set(inspect(old).get_table_names()) - others)
            for table in reversed(tables):
                new.execute(table.delete())  # what a migration put there is in the source, too, as it is now
            for table in tables:
                progress(table.name, _copy_table(table, old, new))
    finally:
        from_engine.dispose()
        to_engine.dispose()


def _revision(connection: Connection, version: str) -> str:
    if not inspect(connection).has_table(version):
        return ""
    return str(connection.scalar(text(f"SELECT version_num FROM {version}")))


def _tables(new: Connection, there: set[str]) -> Sequence[Table]:
    """The tables of `there` that the target has, too, each behind those that its rows refer to."""
    metadata = MetaData()
    metadata.reflect(new, only=lambda name, _: name in there and not name.startswith("alembic_version_"))
    return metadata.sorted_tables


def _copy_table(table: Table, old: Connection, new: Connection) -> int:
    rows = old.execution_options(yield_per=BATCH).execute(select(*map(_as_stored, table.c)))
    number, insertion = 0, _insertion(table)
    for batch in _batches(rows.mappings()):
        new.execute(insertion, batch)
        number += len(batch)
    for column in table.c:
        if isinstance(column.type, Integer) and column.server_default is not None and number:
            _go_on_behind(table, column, new)
    return number


def _as_stored(column: Column[Any]) -> Any:
    """JSON is copied as it is written: its null is no NULL."""
    return cast(column, Text).label(column.name) if _is_json(column) else column


def _insertion(table: Table) -> Insert:
    values = {
        column.name: cast(bindparam(column.name, type_=Text), column.type) for column in table.c if _is_json(column)
    }
    return table.insert().values({column.name: bindparam(column.name) for column in table.c} | values)


def _is_json(column: Column[Any]) -> bool:
    return isinstance(column.type, JSON)


def _batches(rows: MappingResult) -> Iterator[list[dict[str, Any]]]:
    for part in rows.partitions(BATCH):
        yield [{name: _aware(value) for name, value in row.items()} for row in part]


def _aware(value: Any) -> Any:
    """SQLite keeps UTC, without saying so."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value


def _go_on_behind(table: Table, column: Column[Any], new: Connection) -> None:
    """The column's sequence, if it has one, goes on behind its largest number."""
    sequence = new.scalar(select(func.pg_get_serial_sequence(table.name, column.name)))
    if sequence:
        new.execute(select(func.setval(sequence, select(func.max(column)).scalar_subquery())))


def main() -> None:
    if len(sys.argv) != 4:
        sys.exit("usage: python -m ratchet_kit.sql_copy PACKAGE sqlite:///FILE postgresql://USER@HOST/DATABASE")
    package, source, target = sys.argv[1:]
    try:
        copy(package, source, target, lambda table, rows: print(f"{table}: {rows} rows", flush=True))
    except (RatchetError, exc.SQLAlchemyError) as error:
        sys.exit(f"nothing was copied: {error}")


if __name__ == "__main__":
    main()
