"""A database of the first revision is brought over with its data."""

from typing import Any

import pytest
import sqlalchemy as sa

from eval_service.adapters.sql import SqlEvaluationStore
from eval_service.domain.evaluation import State
from eval_service.domain.sample import Judgement, SampleKey
from ratchet_kit import sql_engine
from ratchet_kit.errors import Failure
from ratchet_kit.names import Location, VersionRef
from ratchet_kit.sql import Database

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
SAMPLE = "INSERT INTO eval_samples VALUES ('eval_1', 'p', 0, 'def f(): ...', 'PASSED', 1, 1, 'sha256:p', '')"


def rows() -> list[dict[str, Any]]:
    path = SPEC | {"model": {"kind": "path", "text": "models/mine"}, "problems": SPEC["problems"] | {"limit": 5}}  # type: ignore[operator]
    common = {
        "model": MODEL,
        "samples_per_problem": 1,
        "policy_id": "",
        "problems_total": 3,
        "pass_at_k": [],
        "attempts": 1,
        "fingerprint": "f",
        "create_time": sa.func.now(),
    }
    failed = {"id": "eval_1", "spec": SPEC, "state": "FAILED", "error": "the sandbox is gone", "hold_owner": None}
    running = {"id": "eval_2", "spec": path, "state": "RUNNING", "error": "", "hold_owner": "worker_1"}
    return [common | row | {"request_id": row["id"]} for row in (failed, running)]


@pytest.mark.parametrize("kind", ["sqlite_url", "postgres_url"])
async def test_evaluations_of_the_first_revision_are_kept(kind: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(kind)
    await sql_engine.migrate(url, "eval_service", "eval_0001")
    before = Database(url)
    async with before.writing() as connection:
        for row in rows():
            await connection.execute(FIRST.insert().values(row))
        await connection.execute(sa.text(SAMPLE))
    await before.dispose()
    async with Database.opened(url, "eval_service") as database:
        store = SqlEvaluationStore(database)
        failed, running = await store.get("eval_1"), await store.get("eval_2")
        [sample] = await store.sample_page("eval_1", 9, None)
    assert (failed.state, failed.failure) == (State.FAILED, Failure("UNKNOWN", "the sandbox is gone"))
    assert (failed.spec.model, failed.spec.suite[0].problems.limit) == (VersionRef("starter", 3), None)
    assert (running.state, running.failure, running.hold.owner) == (State.RUNNING, None, "worker_1")
    assert (running.spec.model, running.spec.suite[0].problems.limit) == (Location("models/mine"), 5)
    assert (sample.key, sample.completion) == (SampleKey("basics", "p", 0), "def f(): ...")
    assert sample.judgement == Judgement("PASSED", 1, 1)
