"""Runs say who asked for them, and who cancelled them.

Revision ID: trainer_0003
"""

import sqlalchemy as sa
from alembic import op

revision = "trainer_0003"
down_revision = "trainer_0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("actor", "cancel_actor"):
        op.add_column("trainer_runs", sa.Column(name, sa.String(64), nullable=False, server_default=""))


def downgrade() -> None:
    for name in ("cancel_actor", "actor"):
        op.drop_column("trainer_runs", name)
