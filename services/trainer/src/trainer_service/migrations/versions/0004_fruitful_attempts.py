"""Runs know which attempt was the last to come further: those since then count against the run.

Revision ID: trainer_0004
"""

import sqlalchemy as sa
from alembic import op

revision = "trainer_0004"
down_revision = "trainer_0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("trainer_runs", sa.Column("fruitful_attempt", sa.Integer(), nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("trainer_runs", "fruitful_attempt")
