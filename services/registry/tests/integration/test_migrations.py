"""A database of the version before keeps what it has."""

import pytest
from sqlalchemy import text

from ratchet_kit import sql_engine
from ratchet_kit.names import Location, VersionRef
from ratchet_kit.sql import Database
from registry_service.adapters.sql.gates import SqlGateStore
from registry_service.adapters.sql.models import SqlModelStore
from registry_service.adapters.sql.versions import SqlVersionStore
from registry_service.domain import gate, version
from registry_service.domain.gate_rules import GateRules

from ..conftest import starter

pytestmark = pytest.mark.integration

PACKAGE = "registry_service"
BEFORE = [
    "INSERT INTO registry_models VALUES ('starter', 'the first', '2026-01-01 00:00:00+00:00', 2)",
    *(
        f"INSERT INTO registry_versions VALUES ('starter', {number}, '/a/models/starter/art_{number}', 's', "
        f'\'sha256:{number}\', 7, \'{{"base": "{base}", "run_id": "r", "data_digest": "", "config_digest": '
        f"\"\", \"code_version\": \"\", \"step\": 3}}', '{{}}', '2026-01-01 00:00:00+00:00', 'req_{number}', 'f')"
        for number, base in ((1, "starter@1"), (2, "M M@0"))
    ),
    "INSERT INTO registry_aliases VALUES ('starter', 'champion', 2)",
    *(
        "INSERT INTO registry_alias_changes (position, model, alias, from_version, to_version, reason, gate_id, time) "
        f"VALUES ({position}, 'starter', 'champion', {before}, {after}, '{reason}', '', '2026-01-01 00:00:00+00:00')"
        for position, before, after, reason in (
            (1, 0, 2, "first"),
            (2, 2, 1, "release rel_1 succeeded"),
            (3, 1, 2, "release rel_1: errors"),
        )
    ),
    *(
        f"INSERT INTO registry_gates VALUES ('gate_{number}', 'starter', 2, 1, 'eval_2', 'eval_1', 0.25, 0.125, 0.5, "
        f"0.01, {passed}, 'It is so.', 0.0, '2026-01-01 00:00:00+00:00', 'req_{number}', 'f')"
        for number, passed in ((1, "true"), (2, "false"))
    ),
]


async def test_what_was_there_is_kept(database_url: str) -> None:
    await sql_engine.migrate(database_url, PACKAGE, "registry_0001")
    before = Database(database_url)
    async with before.writing() as connection:
        for statement in BEFORE:
            await connection.execute(text(statement))
    await before.dispose()

    async with Database.opened(database_url, PACKAGE) as database:
        models, versions, gates = SqlModelStore(database), SqlVersionStore(database), SqlGateStore(database)
        model = await models.get("starter")
        assert (dict(model.aliases), model.latest_version) == ({"champion": 2}, 2)
        first, second = await versions.get(starter(1)), await versions.get(starter(2))
        assert first.state is version.State.READY
        assert first.artifact is not None
        assert (first.artifact.key, first.artifact.size_bytes) == ("starter/art_1", 7)
        assert first.settings_id == ""
        assert first.end_time == first.create_time
        assert first.spec.lineage.base == VersionRef("starter", 1)
        assert second.spec.lineage.base == Location("M M@0")
        fallen_back, promoted, first_of_all = [it.change for it in await models.history("starter", None, 10, None)]
        assert (first_of_all.from_number, first_of_all.to_number) == (0, 2)
        assert [it.takes_back for it in (fallen_back, promoted, first_of_all)] == [True, False, False]
        refused, passed = await gates.page("starter", 10, None)
        assert (passed.state, refused.state) == (gate.State.PASSED, gate.State.REFUSED)
        assert passed.comparison is not None
        assert (passed.comparison.difference.low, passed.comparison.p_value) == (0.125, 0.01)
        assert passed.spec.candidate_evaluation_id == "eval_2"
        assert (passed.spec.rules, passed.guards, passed.tries) == (GateRules(), (), 0)
        assert await versions.waiting(first.create_time) == await gates.waiting(first.create_time) == []
