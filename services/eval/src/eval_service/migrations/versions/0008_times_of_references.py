"""What a reference took: samples of slow problems are judged first.

Revision ID: eval_0008
"""

import sqlalchemy as sa
from alembic import op

revision = "eval_0008"
down_revision = "eval_0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("eval_sound_problems", sa.Column("cpu_seconds", sa.Float, nullable=False, server_default="0"))


def downgrade() -> None:
    raise NotImplementedError("there is no way back: the code before this revision cannot read what comes after it")
