"""What a database answers when it can't or won't, and when a value doesn't fit: on SQLite and on PostgreSQL."""

import asyncio
import os
import signal
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Column, ForeignKey, Integer, MetaData, String, Table, exc, select, text

from ratchet_kit import sql_engine, sql_errors
from ratchet_kit.errors import Aborted, DataLoss, InvalidArgument, Unavailable
from ratchet_kit.sql import Database

metadata = MetaData()
things = Table("things", metadata, Column("id", Integer, primary_key=True), Column("name", String(5)))
parts = Table("parts", metadata, Column("id", Integer, primary_key=True), Column("of", ForeignKey(things.c.id)))


async def made(url: str, **options) -> Database:
    database = Database(sql_engine.create_engine(url, **options))
    async with database.writing() as connection:
        await connection.run_sync(metadata.create_all)
    return database


async def insert(database: Database, id: object, name: str = "x") -> None:
    await database.insert_if_absent(things, {"id": id, "name": name})


@pytest.fixture
async def postgres(postgres_url):
    database = await made(postgres_url)
    yield database
    await database.dispose()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("id", "name", "fault"), [(1, "too long", "too long"), (1 << 40, "x", "out of"), (1, "a\0b", "NUL")]
)
async def test_a_value_that_postgresql_cannot_hold_is_the_records(postgres, id, name, fault):
    with pytest.raises(InvalidArgument, match=fault):
        await insert(postgres, id, name)
    await insert(postgres, 1)


async def test_a_value_that_sqlite_cannot_hold_is_the_records(sqlite_url):
    database = await made(sqlite_url)
    for id, name in [(1 << 70, "x"), (1, "\ud800")]:
        with pytest.raises(InvalidArgument, match="does not accept this value"):
            await insert(database, id, name)
    await insert(database, 1)
    await database.dispose()


async def test_an_error_shows_no_values(sqlite_url):
    database = await made(sqlite_url)
    await insert(database, 1, "mine")
    with pytest.raises(exc.IntegrityError) as caught:
        async with database.writing() as connection:
            await connection.execute(things.insert().values(id=1, name="plum"))
    assert "plum" not in str(caught.value)
    await database.dispose()


async def test_what_belongs_to_a_row_that_was_deleted_meanwhile(sqlite_url):
    database = await made(sqlite_url)
    await insert(database, 1)
    await database.insert_if_absent(parts, {"id": 1, "of": 1})
    with pytest.raises(Aborted, match="at the same time"):
        await database.insert_if_absent(parts, {"id": 2, "of": 2})
    with pytest.raises(Aborted, match="at the same time"):
        async with database.writing() as connection:
            await connection.execute(things.delete())
    await database.dispose()


@pytest.mark.integration
async def test_what_belongs_to_a_row_that_was_deleted_meanwhile_in_postgresql(postgres):
    with pytest.raises(Aborted, match="at the same time"):
        await postgres.insert_if_absent(parts, {"id": 2, "of": 2})


@pytest.mark.integration
async def test_a_primary_that_became_a_standby_is_unavailable(postgres):
    """Sorted by psycopg below InternalError, which is for good."""
    with pytest.raises(Unavailable, match="must lead to the primary"):
        async with postgres.writing() as connection:
            await connection.execute(text("SET TRANSACTION READ ONLY"))
            await connection.execute(things.insert().values(id=1, name="x"))


@pytest.mark.integration
async def test_a_pool_of_one_that_is_taken_is_unavailable(postgres_url):
    database = await made(postgres_url, pool_size=1, max_overflow=0, pool_timeout=0.1)
    async with database.writing():
        with pytest.raises(Unavailable, match="no connection to it became free"):
            await insert(database, 1)
    await insert(database, 1)
    await database.dispose()


@pytest.mark.integration
async def test_a_postgresql_that_stands_still_is_unavailable_and_works_once_it_goes_on(postgres, monkeypatch):
    monkeypatch.setattr(sql_errors, "TRANSACTION_LIMIT", timedelta(seconds=0.5))
    async with postgres.reading() as connection:
        pid = (await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one()
    os.kill(pid, signal.SIGSTOP)
    try:
        async with asyncio.timeout(20):
            with pytest.raises(Unavailable, match="not answered in time"):
                await insert(postgres, 1)
            await insert(postgres, 2)  # by a new connection
    finally:
        os.kill(pid, signal.SIGCONT)
    assert [row.id for row in await postgres.rows(select(things))] == [2]


@pytest.mark.integration
async def test_who_stops_in_a_transaction_does_not_keep_its_locks(postgres_url, monkeypatch):
    await (await made(postgres_url)).dispose()  # which may be idle for longer, on a machine that is too busy
    monkeypatch.setattr(sql_engine, "_IDLE_TRANSACTION", "200ms")
    database = Database(sql_engine.create_engine(postgres_url))
    with pytest.raises(Unavailable):
        async with database.writing() as connection:
            await connection.execute(things.insert().values(id=1, name="x"))
            await asyncio.sleep(0.5)
            await connection.execute(things.insert().values(id=2, name="x"))
    assert await database.rows(select(things)) == []
    await database.dispose()


@pytest.mark.integration
async def test_a_server_that_ends_all_connections_is_unavailable_and_the_next_call_works(postgres, postgres_url):
    await insert(postgres, 1)
    with psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    await insert(postgres, 2)
    assert len(await postgres.rows(select(things))) == 2


async def test_a_full_disk_is_unavailable_and_says_so(sqlite_url):
    database = await made(sqlite_url)
    with pytest.raises(Unavailable, match="free some"):
        async with database.writing() as connection:
            await connection.execute(text("PRAGMA max_page_count = 3"))
            for id in range(2000):
                await connection.execute(things.insert().values(id=id, name="x" * 5))
    await database.dispose()


@pytest.fixture
def damaged_url(sqlite_url: str) -> str:
    Path(sqlite_url.removeprefix("sqlite:///")).write_bytes(b"no database" * 1000)
    return sqlite_url


async def test_a_damaged_file_is_data_loss(damaged_url):
    database = Database(damaged_url)
    with pytest.raises(DataLoss, match="damaged"):
        await database.rows(select(things))
    await database.dispose()


async def test_faults_of_our_code_stay_what_they_are(database_url):
    database = await made(database_url)
    with pytest.raises(exc.IntegrityError):
        async with database.writing() as connection:
            for _ in range(2):
                await connection.execute(things.insert().values(id=1, name="x"))
    with pytest.raises(exc.DBAPIError, match="nowhere"):
        await database.rows(select(text("1")).select_from(text("nowhere")))
    await database.dispose()


async def test_a_timeout_inside_is_not_the_databases(sqlite_url):
    database = await made(sqlite_url)
    with pytest.raises(TimeoutError):
        async with database.reading():
            raise TimeoutError
    await database.dispose()
