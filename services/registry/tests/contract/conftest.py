"""The stores that every contract suite runs on."""

from collections.abc import AsyncIterator

import pytest

from ratchet_kit.sql import Database
from registry_service.adapters.sql.datasets import SqlDatasetStore
from registry_service.adapters.sql.findings import SqlFindingStore
from registry_service.adapters.sql.gates import SqlGateStore
from registry_service.adapters.sql.models import SqlModelStore
from registry_service.adapters.sql.rewards import SqlRewardStore
from registry_service.adapters.sql.versions import SqlVersionStore
from registry_service.domain.ports import Stores

from ..memory import memory_stores


@pytest.fixture(
    params=[
        "memory",
        pytest.param("sqlite", marks=pytest.mark.integration),
        pytest.param("postgresql", marks=pytest.mark.integration),
    ]
)
async def stores(request: pytest.FixtureRequest) -> AsyncIterator[Stores]:
    if request.param == "memory":
        yield memory_stores()
        return
    url = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    async with Database.opened(url, "registry_service") as database:
        yield Stores(
            SqlModelStore(database),
            SqlVersionStore(database),
            SqlGateStore(database),
            SqlRewardStore(database),
            SqlDatasetStore(database),
            SqlFindingStore(database),
        )
