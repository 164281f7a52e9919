"""Runs know what memory they were expected to take, which attempts it was too little for, and what guards said.

Revision ID: trainer_0005
"""

import sqlalchemy as sa
from alembic import op

revision = "trainer_0005"
down_revision = "trainer_0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("trainer_runs", sa.Column("estimate", sa.Text(), nullable=False, server_default="null"))
    op.add_column("trainer_runs", sa.Column("out_of_memory", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("trainer_runs", sa.Column("notices", sa.Text(), nullable=False, server_default="[]"))


def downgrade() -> None:
    for name in ("notices", "out_of_memory", "estimate"):
        op.drop_column("trainer_runs", name)
