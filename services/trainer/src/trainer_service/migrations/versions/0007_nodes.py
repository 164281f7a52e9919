"""The machines that an attempt has.

Revision ID: trainer_0018
"""

import sqlalchemy as sa
from alembic import op

revision = "trainer_0018"
down_revision = "trainer_0017"


def upgrade() -> None:
    op.add_column("trainer_runs", sa.Column("nodes", sa.Integer(), nullable=False, server_default="0"))
