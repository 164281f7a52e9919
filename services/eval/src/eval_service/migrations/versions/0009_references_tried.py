"""How many references an evaluation has tried.

Revision ID: eval_0009
"""

import sqlalchemy as sa
from alembic import op

revision = "eval_0009"
down_revision = "eval_0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("references_tried", "references_total"):
        op.add_column("eval_evaluations", sa.Column(name, sa.Integer, nullable=False, server_default="0"))


def downgrade() -> None:
    for name in ("references_tried", "references_total"):
        op.drop_column("eval_evaluations", name)
