"""Transactions, and what is raised when the database is away, busy or wrong."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import JSON, Column, Integer, MetaData, String, Table, exc, select, text

from ratchet_kit import sql, sql_engine
from ratchet_kit.errors import AlreadyExists, Unavailable
from ratchet_kit.idempotency import Request
from ratchet_kit.sql import Database

metadata = MetaData()
runs = Table("runs", metadata, Column("id", String, primary_key=True), Column("steps", Integer), *sql.request_columns())
MISSING = Table("missing", metadata, Column("id", Integer, primary_key=True))


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.integration)])
async def database(request):
    database = Database(request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url"))
    async with database.writing() as connection:
        await connection.run_sync(runs.create)
    yield database
    await database.dispose()


def run(id: str, request: Request) -> dict[str, object]:
    return {"id": id, "steps": 1} | request.columns


async def test_a_request_makes_one_row(database):
    request = Request.of("a", "x")
    assert await database.made_by(request, select(runs), "run") is None
    assert await database.insert_if_absent(runs, run("run_1", request))
    assert not await database.insert_if_absent(runs, run("run_2", request)), "the request made one"
    assert not await database.insert_if_absent(runs, run("run_1", Request.of("b", "x"))), "the key is taken"
    assert (await database.made_by(request, select(runs), "run")).id == "run_1"
    with pytest.raises(AlreadyExists, match="another run"):
        await database.made_by(Request.of("a", "y"), select(runs), "run")


async def test_rows_are_inserted_and_replaced(database):
    requests = [Request.of("", number) for number in range(3)]
    async with database.writing() as connection:
        assert await sql.insert_if_absent(connection, runs, run("1", requests[0])) == 1
        rows = [run(str(number), request) for number, request in enumerate(requests, 1)]
        assert await sql.insert_if_absent(connection, runs, rows) == 2
        assert await sql.insert_if_absent(connection, runs, []) == 0
        await sql.upsert(connection, runs, run("1", requests[0]) | {"steps": 7})
    assert [row.steps for row in await database.rows(select(runs).order_by(runs.c.id))] == [7, 1, 1]
    assert (await database.first(select(runs).where(runs.c.id == "2"))).steps == 1
    assert await database.first(select(runs).where(runs.c.id == "4")) is None


async def test_a_row_that_cannot_be_read_hides_no_other(database):
    for id in ("1", "poison", "3"):
        await database.insert_if_absent(runs, run(id, Request.of("", id)))
    query = select(runs).order_by(runs.c.id)
    assert await database.readable(query, lambda row: int(row.id)) == [1, 3]
    for limit, found in ((1, [1]), (2, [1, 3]), (3, [1, 3]), (9, [1, 3])):
        assert await database.readable(query, lambda row: int(row.id), limit) == found


async def test_a_column_that_the_driver_cannot_read_hides_no_other_row(sqlite_url):
    """PostgreSQL lets nobody store such a value."""
    notes = Table("notes", MetaData(), Column("id", String, primary_key=True), Column("note", JSON))
    database = Database(sqlite_url)
    async with database.writing() as connection:
        await connection.run_sync(notes.create)
        await connection.execute(notes.insert(), [{"id": id, "note": {"n": id}} for id in "123"])
        await connection.execute(text("UPDATE notes SET note = 'no JSON' WHERE id = '2'"))
    assert await database.readable(select(notes).order_by(notes.c.id), lambda row: row.id, 2) == ["1", "3"]
    await database.dispose()


async def test_what_is_raised_inside_rolls_the_transaction_back(database):
    with pytest.raises(KeyError):
        async with database.writing() as connection:
            await sql.insert_if_absent(connection, runs, run("1", Request.of("", "x")))
            raise KeyError
    assert await database.rows(select(runs)) == []


async def test_what_is_wrong_for_good_is_not_unavailable(database):
    with pytest.raises(exc.DBAPIError, match="missing"):
        await database.rows(select(MISSING))
    with pytest.raises(exc.IntegrityError):
        async with database.writing() as connection:
            for _ in range(2):
                await connection.execute(runs.insert().values(run("1", Request.of("", "x"))))


async def test_a_database_that_is_not_there_is_unavailable(tmp_path):
    for url in ("postgresql://nobody:x@127.0.0.1:1/none?connect_timeout=2", f"sqlite:///{tmp_path}"):
        database = Database(url)
        with pytest.raises(Unavailable, match="the database cannot be used now"):
            await database.rows(select(runs))
        await database.dispose()


async def test_a_locked_database_is_unavailable(sqlite_url, monkeypatch):
    monkeypatch.setattr(sql_engine, "_BUSY_TIMEOUT_MS", 50)
    database = Database(sqlite_url)
    async with database.writing() as connection:
        await connection.run_sync(runs.create)
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="locked"):
            await database.insert_if_absent(runs, run("1", Request.of("", "x")))
    await database.dispose()


@pytest.mark.integration
async def test_a_connection_that_the_server_ends_is_unavailable_and_the_next_works(postgres_url):
    database = Database(postgres_url)
    with pytest.raises(Unavailable):
        async with database.reading() as connection:
            await connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
    assert len(await database.rows(select(text("1")))) == 1
    await database.dispose()


@pytest.mark.integration
async def test_no_free_connection_is_unavailable(postgres_url):
    database = Database(sql_engine.create_engine(postgres_url, pool_size=1, max_overflow=0, pool_timeout=0.1))
    async with database.reading():
        with pytest.raises(Unavailable, match="busy"):
            await database.rows(select(text("1")))
    await database.dispose()


@pytest.mark.integration
async def test_a_deadlock_is_unavailable(postgres_url):
    database = Database(postgres_url)
    async with database.writing() as connection:
        await connection.execute(text("CREATE TABLE t (id INTEGER PRIMARY KEY)"))
        await connection.execute(text("INSERT INTO t VALUES (1), (2)"))

    async def lock(first: int, second: int, both: asyncio.Barrier) -> None:
        async with database.writing() as connection:
            await connection.execute(text(f"SELECT * FROM t WHERE id = {first} FOR UPDATE"))
            await both.wait()
            await connection.execute(text(f"SELECT * FROM t WHERE id = {second} FOR UPDATE"))

    barrier = asyncio.Barrier(2)
    results = await asyncio.gather(lock(1, 2, barrier), lock(2, 1, barrier), return_exceptions=True)
    assert [type(result) for result in results if result is not None] == [Unavailable]
    await database.dispose()


async def test_a_lazy_database_is_prepared_at_its_first_use_and_once(sqlite_url):
    attempts = []

    async def prepare() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise Unavailable("not yet")

    database = Database(sqlite_url, prepare=prepare)
    assert attempts == []
    with pytest.raises(Unavailable):
        await database.rows(select(text("1")))
    await asyncio.gather(*(database.rows(select(text("1"))) for _ in range(3)))
    assert len(attempts) == 2
    await database.dispose()


async def test_opened_migrates_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    package = f"opened_{tmp_path.name.replace('-', '_')}"
    versions = tmp_path / package / "migrations" / "versions"
    versions.mkdir(parents=True)
    (tmp_path / package / "__init__.py").touch()
    (versions / "1.py").write_text(
        "from alembic import op\nimport sqlalchemy as sa\nrevision = '1'\ndown_revision = None\n"
        "def upgrade():\n    op.create_table('made', sa.Column('id', sa.Integer))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for lazy in (False, True):
        url = f"sqlite:///{tmp_path}/{lazy}.db"
        async with Database.opened(url, package, lazy=lazy) as database:
            assert (await asyncio.to_thread(Path(f"{tmp_path}/{lazy}.db").exists)) is not lazy
            assert await database.rows(select(text("* FROM made"))) == []
