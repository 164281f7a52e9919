"""A database of the first revision is brought over with its data."""

import json
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations

from gateway_service.adapters.sql.completions import SqlCompletionLog
from gateway_service.adapters.sql.keys import SqlKeyStore
from gateway_service.adapters.sql.releases import SqlReleaseStore
from gateway_service.domain.releases.release import State
from ratchet_kit.errors import Failure
from ratchet_kit.names import VersionRef
from ratchet_kit.sql import Database

VERSIONS = "gateway_service.migrations.versions"
NOON = "2026-01-01T12:00:00Z"
RELEASE = {
    "id": "rel_1",
    "request_id": "req_1",
    "spec": {
        "model": "starter",
        "candidate": 2,
        "gate_id": "gate_2",
        "stages": [{"percent": 100, "min_duration": "PT5M", "min_samples": 50}],
        "bounds": {"max_error_rate_increase": 0.02, "max_latency_ratio": 2.0, "max_quality_drop": 0.05},
    },
    "baseline": 1,
    "create_time": NOON,
    "state": "failed",
    "stage": 0,
    "stage_start": None,
    "events": [{"time": NOON, "percent": 0, "reason": "no room"}],
    "error": "no room",
    "end_time": NOON,
    "retired_at": None,
    "revision": 1,
}


def first_revision(file: Path) -> sa.Engine:
    engine = sa.create_engine(f"sqlite:///{file}")
    with engine.begin() as connection, Operations.context(MigrationContext.configure(connection)):
        import_module(f"{VERSIONS}.0001_first").upgrade()
        connection.execute(
            sa.text("INSERT INTO gateway_releases VALUES ('rel_1', 'req_1', 'starter', NULL, 1, 1, :document)"),
            {"document": json.dumps(RELEASE)},
        )
        connection.execute(
            sa.text(
                "INSERT INTO gateway_completions VALUES ('cmpl_1', '2026-01-01 12:00:00', 'starter', 1, 'sha256:ab',"
                " 'none', '', 0, 0.5, '', 3, 5, '[\"hi\"]', NULL, '', '')"
            )
        )
        connection.execute(
            sa.text(
                "INSERT INTO gateway_api_keys VALUES"
                " ('key_1', 'ci', 'digest1', 'rk_abc', '[\"admin\"]', '2026-01-01 12:00:00', NULL)"
            )
        )
    return engine


def run(engine: sa.Engine, direction: str) -> None:
    names = [
        "0002_one_dialect",
        "0003_who",
        "0004_revisions",
        "0005_experiments",
        "0006_release_sums",
        "0007_traffic",
        "0008_texts",
        "0009_webhooks",
        "0010_metrics",
        "0011_replay",
        "0012_baseline_share",
        "0013_slow_answers",
    ]
    with engine.begin() as connection, Operations.context(MigrationContext.configure(connection)):
        for name in names if direction == "upgrade" else reversed(names):
            getattr(import_module(f"{VERSIONS}.{name}"), direction)()


async def test_what_was_stored_is_read(tmp_path: Path) -> None:
    file = tmp_path / "gateway.db"
    run(first_revision(file), "upgrade")
    database = Database(f"sqlite:///{file}")
    release = await SqlReleaseStore(database).get("rel_1")
    assert (release.candidate, release.baseline) == (VersionRef("starter", 2), VersionRef("starter", 1))
    assert (release.state, release.failure) == (State.FAILED, Failure("FAILED_PRECONDITION", "no room"))
    assert release.events[0].create_time == release.create_time
    assert release.spec.baseline_percent == 0
    completion = await SqlCompletionLog(database).get("cmpl_1")
    assert (completion.latency, completion.texts) == (timedelta(seconds=0.5), ("hi",))
    assert [key.name for key in await SqlKeyStore(database).page(10, None)] == ["ci"]
    await database.dispose()


def test_and_back(tmp_path: Path) -> None:
    engine = first_revision(tmp_path / "gateway.db")
    run(engine, "upgrade")
    run(engine, "downgrade")
    with engine.connect() as connection:
        document = connection.execute(sa.text("SELECT document FROM gateway_releases")).scalar_one()
        assert json.loads(document) == RELEASE
        assert connection.execute(sa.text("SELECT time FROM gateway_completions")).all()
