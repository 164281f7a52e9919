"""A row that cannot be read, such as one of another version of the service, hides no other in a list."""

import pytest
from sqlalchemy import Table, update

from ratchet_kit.sql import Database
from registry_service.adapters.sql.datasets import SqlDatasetStore
from registry_service.adapters.sql.findings import SqlFindingStore
from registry_service.adapters.sql.gates import SqlGateStore
from registry_service.adapters.sql.models import SqlModelStore
from registry_service.adapters.sql.rewards import SqlRewardStore
from registry_service.adapters.sql.tables import gates, versions
from registry_service.adapters.sql.versions import SqlVersionStore
from registry_service.domain.ports import Stores

from .values import add_ready, gate, request

pytestmark = pytest.mark.integration


async def poison(database: Database, table: Table, row: object) -> None:
    async with database.writing() as connection:
        await connection.execute(update(table).where(row).values(state="unheard"))  # type: ignore[arg-type]


async def test_versions_and_gates(database_url: str) -> None:
    async with Database.opened(database_url, "registry_service") as database:
        stores = Stores(
            SqlModelStore(database),
            SqlVersionStore(database),
            SqlGateStore(database),
            SqlRewardStore(database),
            SqlDatasetStore(database),
            SqlFindingStore(database),
        )
        for number in (1, 2, 3):
            await add_ready(stores, f"req_{number}")
        for number in (1, 2, 3):
            await stores.gates.create(gate(f"gate_{number}"), request(f"gate_{number}"))
        await poison(database, versions, versions.c.number == 2)
        await poison(database, gates, gates.c.id == "gate_2")
        assert [version.ref.number for version in await stores.versions.page("starter", 2, None)] == [3, 1]
        assert [one.id for one in await stores.gates.page("starter", 2, None)] == ["gate_3", "gate_1"]
