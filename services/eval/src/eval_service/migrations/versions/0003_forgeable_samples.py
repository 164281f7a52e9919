"""A sample says whether its tests ran in the program's process, which could forge their result.

Revision ID: eval_0003
"""

import sqlalchemy as sa
from alembic import op

revision = "eval_0003"
down_revision = "eval_0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("eval_samples", sa.Column("forgeable", sa.Boolean, nullable=False, server_default=sa.false()))


def downgrade() -> None:
    raise NotImplementedError("there is no way back: the code before this revision cannot read what comes after it")
