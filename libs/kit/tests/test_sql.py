import asyncio
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, delete, insert, select, text
from sqlalchemy.exc import IntegrityError, StatementError

from ratchet_kit import sql, sql_engine
from ratchet_kit.errors import FailedPrecondition

FIRST = """
import sqlalchemy as sa
from alembic import op
from ratchet_kit.sql import UtcDateTime

revision = "0001"
down_revision = None

def upgrade():
    op.create_table("runs", sa.Column("id", sa.String, primary_key=True), sa.Column("at", UtcDateTime))
"""
SECOND = """
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

def upgrade():
    with op.batch_alter_table("runs") as runs:
        runs.add_column(sa.Column("steps", sa.Integer, nullable=False, server_default="0"))
        runs.create_check_constraint("steps_positive", "steps >= 0")
"""
BROKEN = """
from alembic import op

revision = "0003"
down_revision = "0002"

def upgrade():
    op.execute("CREATE TABLE half (id INTEGER)")
    op.execute("no SQL")
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Package":
    monkeypatch.syspath_prepend(tmp_path)
    return Package(tmp_path)


class Package:
    """A package with migrations, of a new name for each test: Python keeps what it has imported."""

    def __init__(self, folder: Path) -> None:
        self.name = f"migrated_{folder.name.replace('-', '_')}"
        self._versions = folder / self.name / "migrations" / "versions"
        self._versions.mkdir(parents=True)
        (folder / self.name / "__init__.py").touch()

    def add(self, revision: str) -> None:
        (self._versions / f"{len(list(self._versions.glob('*.py')))}.py").write_text(revision)


async def run(url: str, statement: str) -> list:
    engine = sql_engine.create_engine(url)
    async with engine.begin() as connection:
        result = await connection.execute(text(statement))
        rows = [tuple(row) for row in result] if result.returns_rows else []
    await engine.dispose()
    return rows


async def test_migrate_makes_the_schema_and_then_changes_it(database_url, package):
    package.add(FIRST)
    await sql_engine.migrate(database_url, package.name)
    await run(database_url, "INSERT INTO runs (id) VALUES ('run_1')")
    package.add(SECOND)
    await sql_engine.migrate(database_url, package.name)
    await sql_engine.migrate(database_url, package.name)
    assert await run(database_url, "SELECT id, steps FROM runs") == [("run_1", 0)]


async def test_a_broken_migration_changes_nothing(database_url, package):
    package.add(FIRST)
    package.add(SECOND)
    await sql_engine.migrate(database_url, package.name)
    package.add(BROKEN)
    with pytest.raises(Exception, match="no SQL"):
        await sql_engine.migrate(database_url, package.name)
    assert await run(database_url, f"SELECT * FROM alembic_version_{package.name}") == [("0002",)]
    await run(database_url, "CREATE TABLE half (id INTEGER)")  # it is not there


async def test_a_database_of_an_unknown_revision_is_refused_in_a_sentence(database_url, package):
    package.add(FIRST)
    await sql_engine.migrate(database_url, package.name)
    await run(database_url, f"UPDATE alembic_version_{package.name} SET version_num = '0099'")
    with pytest.raises(FailedPrecondition, match=r"another version of .*'0099'.*begin with an empty database"):
        await sql_engine.migrate(database_url, package.name)


async def test_several_migrate_at_once(database_url, package):
    package.add(FIRST)
    package.add(SECOND)
    await asyncio.gather(*(sql_engine.migrate(database_url, package.name) for _ in range(4)))
    assert await run(database_url, "SELECT count(*) FROM runs") == [(0,)]


async def test_several_open_a_new_file_at_once(tmp_path):
    """All of them would set its journal mode, which SQLite lets nobody wait for."""
    for number in range(25):
        url = f"sqlite:///{tmp_path}/{number}.db"
        await asyncio.gather(*(run(url, "CREATE TABLE IF NOT EXISTS runs (id INTEGER)") for _ in range(8)))
        assert await run(url, "PRAGMA journal_mode") == [("wal",)]


async def test_two_packages_share_a_database(database_url, package, tmp_path, monkeypatch):
    package.add(FIRST)
    other = Package(tmp_path / "other")
    monkeypatch.syspath_prepend(tmp_path / "other")
    other.add(FIRST.replace('"runs"', '"models"'))
    for name in (package.name, other.name):
        await sql_engine.migrate(database_url, name)
    assert await run(database_url, "SELECT count(*) FROM models") == [(0,)]


times = Table("times", MetaData(), Column("id", Integer, primary_key=True), Column("at", sql.UtcDateTime))


async def test_times_are_aware_and_in_utc(database_url):
    at = datetime(2026, 3, 1, 12, 30, 0, 123456, tzinfo=timezone(timedelta(hours=2)))
    engine = sql_engine.create_engine(database_url)
    async with engine.begin() as connection:
        await connection.run_sync(times.metadata.create_all)
        await connection.execute(insert(times).values([{"at": at}, {"at": None}]))
        stored, missing = (await connection.execute(select(times.c.at).order_by(times.c.id))).scalars()
        found = await connection.scalar(select(times.c.id).where(times.c.at < at + timedelta(microseconds=1)))
    await engine.dispose()
    assert stored == at
    assert stored.tzinfo == UTC
    assert missing is None
    assert found == 1


async def test_a_naive_time_is_refused(database_url):
    engine = sql_engine.create_engine(database_url)
    async with engine.begin() as connection:
        await connection.run_sync(times.metadata.create_all)
        with pytest.raises(StatementError, match="no time zone"):
            await connection.execute(insert(times).values(at=datetime(2026, 1, 1)))
    await engine.dispose()


async def test_foreign_keys_hold(database_url):
    await run(database_url, "CREATE TABLE parents (id INTEGER PRIMARY KEY)")
    await run(database_url, "CREATE TABLE children (parent INTEGER REFERENCES parents (id))")
    with pytest.raises(IntegrityError):
        await run(database_url, "INSERT INTO children VALUES (1)")


async def test_transactions_that_read_before_they_write_wait_for_one_another(sqlite_url):
    engine = sql_engine.create_engine(sqlite_url)
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE counters (value INTEGER)"))
        await connection.execute(text("INSERT INTO counters VALUES (0)"))

    async def add_one() -> None:
        async with engine.begin() as connection:
            value = await connection.scalar(text("SELECT value FROM counters"))
            await asyncio.sleep(0.01)
            await connection.execute(text("UPDATE counters SET value = :value"), {"value": value + 1})

    await asyncio.gather(*(add_one() for _ in range(10)))
    async with engine.connect() as connection:
        assert await connection.scalar(text("SELECT value FROM counters")) == 10
    await engine.dispose()


async def test_a_read_only_connection_does_not_wait_for_a_writer(sqlite_url):
    engine = sql_engine.create_engine(sqlite_url)
    async with engine.begin() as writer:
        await writer.execute(text("CREATE TABLE t (value INTEGER)"))
        readers = engine.execution_options(read_only=True)
        async with asyncio.timeout(5), readers.connect() as reader:
            assert await reader.scalar(text("SELECT count(*) FROM sqlite_master")) == 0
    await engine.dispose()


async def test_the_folder_of_the_file_is_made(tmp_path):
    await run(f"sqlite:///{tmp_path}/a/b/c.db", "SELECT 1")
    assert (tmp_path / "a/b/c.db").exists()


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        ("sqlite:///x.db", "sqlite+aiosqlite"),
        ("postgresql://u:p@h/d", "postgresql+psycopg"),
        ("postgres://u:p@h/d", "postgresql+psycopg"),
        ("postgresql+asyncpg://u:p@h/d", "postgresql+asyncpg"),
    ],
)
def test_plain_urls_get_the_async_driver(url, driver):
    assert sql_engine.async_url(url).drivername == driver
    assert sql_engine.async_url(url).password == ("p" if "@" in url else None)


async def test_what_is_wiped_is_in_no_file(tmp_path: Path) -> None:
    table = Table("notes", MetaData(), Column("id", Integer, primary_key=True), Column("text", String))
    database = sql.Database(f"sqlite+aiosqlite:///{tmp_path}/notes.db")
    try:
        async with database.writing() as connection:
            await connection.run_sync(table.create)
        async with database.writing() as connection:
            await connection.execute(insert(table), [{"text": f"MARKER {number}"} for number in range(100)])
        async with database.writing() as connection:
            await connection.execute(delete(table))
        kept = lambda: b"".join(file.read_bytes() for file in tmp_path.iterdir())  # noqa: E731
        assert b"MARKER" in kept()
        await database.wipe()
        assert b"MARKER" not in kept()
        assert await database.rows(select(table)) == []
    finally:
        await database.dispose()
