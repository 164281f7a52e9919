"""The stores that every contract suite runs on."""

import pytest

from ratchet_kit.sql import Database
from registry_service.adapters.sql.stores import sql_stores
from registry_service.domain.ports import Stores

from ..memory import memory_stores


@pytest.fixture
def stores(database_or_memory: Database | None) -> Stores:
    return sql_stores(database_or_memory) if database_or_memory else memory_stores()
