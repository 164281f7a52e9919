"""What each attempt of a run has used.

Revision ID: trainer_0016
"""

import sqlalchemy as sa
from alembic import op

revision = "trainer_0016"
down_revision = "trainer_0015"


def upgrade() -> None:
    op.add_column("trainer_runs", sa.Column("usages", sa.Text(), nullable=False, server_default="[]"))
