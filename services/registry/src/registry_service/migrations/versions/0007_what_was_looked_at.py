"""Tries are counted by what was looked at: gates have no digests. The history knows what was taken back.

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
    op.add_column(
        "registry_alias_changes", sa.Column("takes_back", sa.Boolean, nullable=False, server_default=sa.false())
    )
    # What a release said when it fell back.
    op.execute(
        "UPDATE registry_alias_changes SET takes_back = true "
        "WHERE alias = 'champion' AND gate_id = '' AND reason LIKE 'release rel_%: %'"
    )


def downgrade() -> None:
    op.drop_column("registry_alias_changes", "takes_back")
    op.add_column("registry_gates", sa.Column("digests", sa.JSON, nullable=False, server_default="[]"))
