"""A service's migrations make the tables that its stores use."""

from importlib import import_module
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

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
    metadata = import_module(f"{package}.{TABLES[package]}").metadata
    driver = "sqlite" if database_url.startswith("sqlite") else "postgresql+psycopg"
    engine = sa.create_engine(sa.make_url(database_url).set(drivername=driver))
    with engine.connect() as connection:
        options = {"include_name": lambda name, kind, _: kind != "table" or name in metadata.tables}
        differences = compare_metadata(MigrationContext.configure(connection, opts=options), metadata)
    engine.dispose()
    assert metadata.tables
    assert differences == []


def test_every_service_with_migrations_is_here() -> None:
    services = Path(__file__).parents[2] / "services"
    assert {path.parent.name for path in services.glob("*/src/*/migrations")} == set(TABLES)
