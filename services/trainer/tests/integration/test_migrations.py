"""A database of the first revision, brought to the newest with what is in it."""

import json
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection, text

from ratchet_kit.errors import Failure
from ratchet_kit.names import Location, VersionRef
from ratchet_kit.sql import Database
from ratchet_kit.sql_engine import create_engine
from ratchet_rewards import Reward, completed
from trainer_service.adapters.sql import SqlRunStore
from trainer_service.domain.run.run import Phase, RunId, State
from trainer_service.domain.spec.spec import ProblemSetRef

pytestmark = pytest.mark.integration

SPEC = {
    "base": {"kind": "path", "value": "/models/starter"},
    "algorithm": "reinforce++",
    "problems": {"name": "composed/train", "limit": 0, "digest": "sha256:t"},
    "validation_problems": {"name": "composed/validation", "limit": 8, "digest": "sha256:v"},
    "steps": 4,
    "validate_every": 0,
    "checkpoint_every": 2,
    "priority": "normal",
    "experiment": "nightly",
}


def first_revision(connection: Connection, runs: dict[str, dict[str, Any]]) -> None:
    """What a service of the first revision has left."""
    operations = Operations(MigrationContext.configure(connection))
    with Operations.context(operations.migration_context):
        import_module("trainer_service.migrations.versions.0001_first_tables").upgrade()
    connection.execute(text("CREATE TABLE alembic_version_trainer_service (version_num VARCHAR(32) PRIMARY KEY)"))
    connection.execute(text("INSERT INTO alembic_version_trainer_service VALUES ('trainer_0001')"))
    for id, values in runs.items():
        row = {
            "id": id,
            "request_id": id,
            "fingerprint": "f",
            "spec": json.dumps(SPEC | values.pop("spec")),
            "state": "succeeded",
            "error": "",
            "step": 1,
            "attempt": 1,
            "platform_faults": 0,
            "version": "",
            "create_time": "2026-01-01 00:00:00+00:00",
            "update_time": "2026-01-01 00:00:00+00:00",
        } | values
        columns, names = ", ".join(row), ", ".join(f":{name}" for name in row)
        connection.execute(text(f"INSERT INTO trainer_runs ({columns}) VALUES ({names})"), row)
        step = f"('{id}', 1, '{{}}', 'sha256:p', '2026-01-01 00:00:00+00:00', 1, 0)"
        connection.execute(text(f"INSERT INTO trainer_steps VALUES {step}"))


async def test_runs_of_the_first_revision_are_kept(database_url: str) -> None:
    engine = create_engine(database_url)
    version = {"spec": {"base": {"kind": "version", "value": "starter@3"}}, "version": "coder@2"}
    long_form = {"spec": {"base": {"kind": "version", "value": "models/starter/versions/4"}}}
    failed = {"spec": {"reward": "tests_fraction"}, "state": "failed", "error": "no room"}
    async with engine.begin() as connection:
        await connection.run_sync(first_revision, {"run_1": version, "run_2": long_form, "run_3": failed})
    await engine.dispose()
    async with Database.opened(database_url, "trainer_service") as database:
        store = SqlRunStore(database)
        first, second, third = [await store.get(RunId(f"run_{number}")) for number in (1, 2, 3)]
        assert (first.spec.base, first.version) == (VersionRef("starter", 3), VersionRef("coder", 2))
        assert second.spec.base == VersionRef("starter", 4)
        assert (third.spec.base, third.state) == (Location("/models/starter"), State.FAILED)
        assert (third.failure, first.failure) == (Failure("INTERNAL", "no room"), None)
        assert (first.spec.algorithm, first.spec.tracker_project) == ("reinforce_plus_plus", "nightly")
        assert (first.spec.reward, third.spec.reward) == (Reward(), completed(Reward("tests_fraction")))
        assert first.spec.problems == ProblemSetRef("composed/train", None, "sha256:t")
        assert first.spec.validation_problems == ProblemSetRef("composed/validation", 8, "sha256:v")
        assert (first.spec.validate_every, first.spec.checkpoint_every) == (None, 2)
        assert [step.number for step in await store.steps(first.id, 9, 0)] == [1]
        saving = await store.change(first.id, lambda run: replace(run, phase=Phase.SAVING))
        assert await store.get(first.id) == saving
