"""A spec's reward is a list of components.

Revision ID: trainer_0006
"""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "trainer_0006"
down_revision = "trainer_0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    runs = sa.table("trainer_runs", sa.column("id"), sa.column("spec"))
    connection = op.get_bind()
    for row in connection.execute(sa.select(runs.c.id, runs.c.spec)).all():
        spec = json.loads(row.spec)
        spec["reward"] = _new_form(spec.get("reward", ""))
        connection.execute(sa.update(runs).where(runs.c.id == row.id).values(spec=json.dumps(spec)))


def downgrade() -> None:
    raise NotImplementedError("a reward of several components has no name")


def _new_form(name: str) -> dict[str, Any]:
    """It was a name, empty for an algorithm that learns from examples."""
    return {"components": [{"name": name}], "combination": "weighted_sum"} if name else {}
