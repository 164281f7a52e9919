"""A row that cannot be read, such as one of another version of the service, hides no other in a list."""

from sqlalchemy import Table, update

from ratchet_kit.sql import Database
from registry_service.adapters.sql.stores import sql_stores
from registry_service.adapters.sql.tables import gates, versions

from .values import add_ready, gate, request


async def poison(database: Database, table: Table, row: object) -> None:
    async with database.writing() as connection:
        await connection.execute(update(table).where(row).values(state="unheard"))  # type: ignore[arg-type]


async def test_versions_and_gates(database: Database) -> None:
    stores = sql_stores(database)
    for number in (1, 2, 3):
        await add_ready(stores, f"req_{number}")
    for number in (1, 2, 3):
        await stores.gates.create(gate(f"gate_{number}"), request(f"gate_{number}"))
    await poison(database, versions, versions.c.number == 2)
    await poison(database, gates, gates.c.id == "gate_2")
    assert [version.ref.number for version in await stores.versions.page("starter", 2, None)] == [3, 1]
    assert [one.id for one in await stores.gates.page("starter", 2, None)] == ["gate_3", "gate_1"]
