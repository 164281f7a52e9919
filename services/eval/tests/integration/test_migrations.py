"""A database of the first revision is brought over with its data."""

from importlib import import_module
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations

from eval_service.adapters.sql import SqlEvaluationStore
from eval_service.domain.evaluation import State
from ratchet_kit.errors import Failure
from ratchet_kit.names import Location, VersionRef
from ratchet_kit.sql import Database, create_engine

pytestmark = pytest.mark.integration

MODEL = {"source": "/artifacts/starter", "policy_id": "sha256:p"}
SPEC = {
    "model": {"kind": "version", "text": "models/starter/versions/3"},
    "problems": {"name": "basics", "limit": 0, "digest": "sha256:d"},
    "samples_per_problem": 1,
    "k": [1],
    "temperature": 1.0,
    "max_tokens": 512,
    "seed": 7,
}
FIRST = sa.table(
    "eval_evaluations",
    *(sa.column(name) for name in ("id", "samples_per_problem", "state", "error", "policy_id", "problems_total")),
    *(sa.column(name, sa.JSON) for name in ("spec", "model", "pass_at_k")),
    *(sa.column(name) for name in ("hold_owner", "attempts", "request_id", "fingerprint")),
    sa.column("create_time", sa.DateTime(timezone=True)),
)
SAMPLES = ("evaluation_id", "problem_id", "index", "completion", "verdict", "tests_passed", "tests_total")


def fill(connection: sa.Connection) -> None:
    with Operations.context(MigrationContext.configure(connection)):
        import_module("eval_service.migrations.versions.0001_first_tables").upgrade()
    path = SPEC | {"model": {"kind": "path", "text": "models/mine"}, "problems": SPEC["problems"] | {"limit": 5}}  # type: ignore[operator]
    for id, spec, state, error, owner in (
        ("eval_1", SPEC, "FAILED", "the sandbox is gone", None),
        ("eval_2", path, "RUNNING", "", "worker_1"),
    ):
        row: dict[str, Any] = {
            "id": id,
            "spec": spec,
            "model": MODEL,
            "samples_per_problem": 1,
            "state": state,
            "error": error,
            "policy_id": "",
            "problems_total": 3,
            "pass_at_k": [],
            "hold_owner": owner,
            "attempts": 1,
            "request_id": id,
            "fingerprint": "f",
            "create_time": sa.func.now(),
        }
        connection.execute(FIRST.insert().values(row))
    samples = sa.table("eval_samples", *(sa.column(name) for name in (*SAMPLES, "policy_id", "detail")))
    values = ("eval_1", "p", 0, "def f(): ...", "PASSED", 1, 1, "sha256:p", "")
    connection.execute(samples.insert().values(dict(zip((*SAMPLES, "policy_id", "detail"), values, strict=True))))
    connection.execute(sa.text("CREATE TABLE alembic_version_eval_service (version_num VARCHAR(32) NOT NULL)"))
    connection.execute(sa.text("INSERT INTO alembic_version_eval_service VALUES ('eval_0001')"))


@pytest.mark.parametrize("kind", ["sqlite_url", "postgres_url"])
async def test_evaluations_of_the_first_revision_are_kept(kind: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(kind)
    engine = create_engine(url)
    async with engine.begin() as connection:
        await connection.run_sync(fill)
    await engine.dispose()
    async with Database.opened(url, "eval_service") as database:
        store = SqlEvaluationStore(database)
        failed, running = await store.get("eval_1"), await store.get("eval_2")
        [sample] = await store.sample_page("eval_1", 9, None)
    assert (failed.state, failed.failure) == (State.FAILED, Failure("UNKNOWN", "the sandbox is gone"))
    assert (failed.spec.model, failed.spec.problems.limit) == (VersionRef("starter", 3), None)
    assert (running.state, running.failure, running.hold.owner) == (State.RUNNING, None, "worker_1")
    assert (running.spec.model, running.spec.problems.limit) == (Location("models/mine"), 5)
    assert sample.completion == "def f(): ..."
