"""Names and models of runs as columns of their own, which lists are filtered by.

Revision ID: trainer_0014
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "trainer_0014"
down_revision = "trainer_0013"

COLUMNS = {"display_name": sa.Text(), "base_model": sa.String(63), "output_model": sa.String(63)}


def upgrade() -> None:
    for name, kind in COLUMNS.items():
        op.add_column("trainer_runs", sa.Column(name, kind, nullable=False, server_default=""))
    runs = sa.table("trainer_runs", sa.column("id"), sa.column("spec"), *(sa.column(name) for name in COLUMNS))
    connection = op.get_bind()
    for row in connection.execute(sa.select(runs.c.id, runs.c.spec)).all():
        spec = json.loads(row.spec)
        names = {
            "display_name": spec.get("display_name") or "",
            "base_model": (spec.get("base") or {}).get("model") or "",
            "output_model": spec.get("output_model") or "",
        }
        connection.execute(sa.update(runs).where(runs.c.id == row.id).values(names))
    op.create_index("ix_trainer_runs_create_time", "trainer_runs", ["create_time"])
    op.create_index("ix_trainer_runs_base_model", "trainer_runs", ["base_model", "id"])
    op.create_index("ix_trainer_runs_output_model", "trainer_runs", ["output_model", "id"])
