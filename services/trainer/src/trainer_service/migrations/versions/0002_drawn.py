"""The newer versions of its problems that a run draws from.

Revision ID: trainer_0013
"""

import sqlalchemy as sa
from alembic import op

revision = "trainer_0013"
down_revision = "trainer_0012"


def upgrade() -> None:
    op.add_column("trainer_runs", sa.Column("drawn", sa.Text, nullable=False, server_default="[]"))
    op.add_column("trainer_runs", sa.Column("drawn_step", sa.Integer, nullable=False, server_default="0"))
