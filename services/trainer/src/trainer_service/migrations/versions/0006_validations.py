"""The evaluations that score checkpoints, and what a run waits for that has trained.

Revision ID: trainer_0017
"""

import sqlalchemy as sa
from alembic import op

revision = "trainer_0017"
down_revision = "trainer_0016"


def upgrade() -> None:
    op.add_column("trainer_checkpoints", sa.Column("evaluation_id", sa.String(64), nullable=False, server_default=""))
    op.add_column("trainer_checkpoints", sa.Column("unscored", sa.Text(), nullable=False, server_default=""))
    op.add_column("trainer_runs", sa.Column("waits_for", sa.Text(), nullable=False, server_default=""))
