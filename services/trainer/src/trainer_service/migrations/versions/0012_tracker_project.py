"""The project of a run's trackers is called so.

Revision ID: trainer_0012
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "trainer_0012"
down_revision = "trainer_0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _rename("experiment", "tracker_project")


def downgrade() -> None:
    _rename("tracker_project", "experiment")


def _rename(before: str, after: str) -> None:
    runs = sa.table("trainer_runs", sa.column("id"), sa.column("spec"))
    connection = op.get_bind()
    for row in connection.execute(sa.select(runs.c.id, runs.c.spec)).all():
        spec = json.loads(row.spec)
        if before in spec:
            spec[after] = spec.pop(before)
            connection.execute(sa.update(runs).where(runs.c.id == row.id).values(spec=json.dumps(spec)))
