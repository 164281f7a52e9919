"""A run makes room for one of higher priority.

Revision ID: trainer_0010
"""

import sqlalchemy as sa
from alembic import op

revision = "trainer_0010"
down_revision = "trainer_0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("trainer_runs", sa.Column("preempted_by", sa.String(64), nullable=False, server_default=""))
    op.add_column("trainer_runs", sa.Column("preemptions", sa.Integer(), nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("trainer_runs", "preemptions")
    op.drop_column("trainer_runs", "preempted_by")
