"""Tries are counted by what was looked at: gates have no digests.

Revision ID: registry_0007
"""

import sqlalchemy as sa
from alembic import op

revision = "registry_0007"
down_revision = "registry_0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_column("registry_gates", "digests")


def downgrade() -> None:
    op.add_column("registry_gates", sa.Column("digests", sa.JSON, nullable=False, server_default="[]"))
