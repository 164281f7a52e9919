"""Failures with a code, phases, and specs in their new form.

Revision ID: trainer_0002
"""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "trainer_0002"
down_revision = "trainer_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Not in batch mode: on SQLite it makes the table anew, and the old one's end takes the steps with it.
    op.execute("ALTER TABLE trainer_runs RENAME COLUMN error TO failure_message")
    op.add_column("trainer_runs", sa.Column("failure_code", sa.String(40)))
    op.add_column("trainer_runs", sa.Column("phase", sa.String(20)))
    op.add_column("trainer_runs", sa.Column("phase_time", UtcDateTime))
    op.execute("UPDATE trainer_runs SET failure_code = 'INTERNAL' WHERE state = 'failed'")
    for table in ("trainer_steps", "trainer_checkpoints"):
        op.execute(f'ALTER TABLE {table} RENAME COLUMN "time" TO create_time')
    runs = sa.table("trainer_runs", sa.column("id"), sa.column("spec"))
    connection = op.get_bind()
    for row in connection.execute(sa.select(runs.c.id, runs.c.spec)).all():
        spec = json.dumps(_new_form(json.loads(row.spec)))
        connection.execute(sa.update(runs).where(runs.c.id == row.id).values(spec=spec))


def downgrade() -> None:
    raise NotImplementedError("specs have no way back to their old form")


def _new_form(spec: dict[str, Any]) -> dict[str, Any]:
    for problems in (spec["problems"], spec["validation_problems"]):
        if problems:
            problems["limit"] = problems["limit"] or None
    return spec | {
        "base": _base(**spec["base"]) if spec["base"] else None,
        "algorithm": spec["algorithm"].replace("++", "_plus_plus"),
        "validate_every": spec["validate_every"] or None,
        "checkpoint_every": spec["checkpoint_every"] or None,
    }


def _base(kind: str, value: str) -> dict[str, Any]:
    if kind == "path":
        return {"uri": value}
    model, _, alias = value.partition(":")
    if kind == "alias":
        return {"model": model, "alias": alias}
    model, _, number = value.removeprefix("models/").replace("/versions/", "@").partition("@")
    return {"model": model, "number": int(number)}
