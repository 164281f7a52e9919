"""A failure has a code, a hold is kept as kit keeps it, states are lower case, and models are written in one grammar.

Revision ID: eval_0002
"""

import re
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "eval_0002"
down_revision = "eval_0001"
branch_labels = None
depends_on = None

_TABLE = sa.table(
    "eval_evaluations",
    sa.column("id", sa.String),
    sa.column("spec", sa.JSON),
    sa.column("error", sa.Text),
    sa.column("failure", sa.JSON(none_as_null=True)),
)
_LONG_VERSION = re.compile(r"models/([a-z0-9._-]+)/versions/([0-9]+)")


def upgrade() -> None:
    # Without Alembic's batches: they make the table anew, which the foreign key of eval_samples forbids on SQLite.
    op.add_column("eval_evaluations", sa.Column("failure", sa.JSON))
    op.add_column("eval_evaluations", sa.Column("held_by", sa.String(200), nullable=False, server_default=""))
    op.execute("ALTER TABLE eval_evaluations RENAME COLUMN hold_until TO held_until")
    op.execute("UPDATE eval_evaluations SET state = lower(state), held_by = coalesce(hold_owner, '')")
    connection = op.get_bind()
    for id, spec, error in connection.execute(sa.select(_TABLE.c.id, _TABLE.c.spec, _TABLE.c.error)).all():
        values = {"spec": _spec(spec), "failure": {"code": "UNKNOWN", "message": error} if error else None}
        connection.execute(_TABLE.update().where(_TABLE.c.id == id).values(values))
    op.drop_column("eval_evaluations", "hold_owner")
    op.drop_column("eval_evaluations", "error")


def _spec(spec: dict[str, Any]) -> dict[str, Any]:
    model, problems = spec["model"], spec["problems"]
    text = _LONG_VERSION.sub(r"\1@\2", model["text"]) if model["kind"] == "version" else model["text"]
    kind = "uri" if model["kind"] == "path" else model["kind"]
    return spec | {"model": {"kind": kind, "text": text}, "problems": problems | {"limit": problems["limit"] or None}}


def downgrade() -> None:
    raise NotImplementedError("there is no way back: the code before this revision cannot read what comes after it")
