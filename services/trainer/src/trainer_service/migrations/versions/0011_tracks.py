"""A run knows how far its trackers have come with it.

Revision ID: trainer_0011
"""

import sqlalchemy as sa
from alembic import op

revision = "trainer_0011"
down_revision = "trainer_0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("trainer_runs", sa.Column("tracks", sa.Text(), nullable=False, server_default="[]"))
    op.add_column("trainer_runs", sa.Column("is_tracked", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_index("ix_trainer_runs_is_tracked", "trainer_runs", ["is_tracked"])


def downgrade() -> None:
    op.drop_index("ix_trainer_runs_is_tracked", "trainer_runs")
    op.drop_column("trainer_runs", "is_tracked")
    op.drop_column("trainer_runs", "tracks")
