"""Samples lose their texts some time after their evaluation's end.

Revision ID: eval_0007
"""

import sqlalchemy as sa
from alembic import op

revision = "eval_0007"
down_revision = "eval_0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("eval_evaluations", sa.Column("has_texts", sa.Boolean, nullable=False, server_default=sa.true()))


def downgrade() -> None:
    raise NotImplementedError("there is no way back: the code before this revision cannot read what comes after it")
