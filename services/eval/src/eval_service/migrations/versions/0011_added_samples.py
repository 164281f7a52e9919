"""How many samples the caller of an evaluation has added, and when the last ones came; notices.

Revision ID: eval_0011
"""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "eval_0011"
down_revision = "eval_0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("eval_evaluations", sa.Column("added_samples", sa.Integer, nullable=False, server_default="0"))
    op.add_column("eval_evaluations", sa.Column("added_time", UtcDateTime))
    op.add_column("eval_evaluations", sa.Column("notices", sa.JSON, nullable=False, server_default="[]"))
    # What was added to those that are under way; where none is added, the number says nothing.
    op.execute(
        "UPDATE eval_evaluations SET added_samples = (SELECT count(*) FROM eval_samples"
        " WHERE eval_samples.evaluation_id = eval_evaluations.id) WHERE state IN ('queued', 'running')"
    )


def downgrade() -> None:
    for name in ("added_samples", "added_time", "notices"):
        op.drop_column("eval_evaluations", name)
