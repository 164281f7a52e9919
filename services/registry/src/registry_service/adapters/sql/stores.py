"""The stores over one database."""

from ratchet_kit.sql import Database
from registry_service.adapters.sql.datasets import SqlDatasetStore
from registry_service.adapters.sql.findings import SqlFindingStore
from registry_service.adapters.sql.gates import SqlGateStore
from registry_service.adapters.sql.models import SqlModelStore
from registry_service.adapters.sql.rewards import SqlRewardStore
from registry_service.adapters.sql.versions import SqlVersionStore
from registry_service.domain.ports import Stores


def sql_stores(database: Database) -> Stores:
    return Stores(
        SqlModelStore(database),
        SqlVersionStore(database),
        SqlGateStore(database),
        SqlRewardStore(database),
        SqlDatasetStore(database),
        SqlFindingStore(database),
    )
