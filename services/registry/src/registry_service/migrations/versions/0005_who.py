"""The history of aliases says who moved them.

Revision ID: registry_0005
"""

import sqlalchemy as sa
from alembic import op

revision = "registry_0005"
down_revision = "registry_0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("registry_alias_changes", sa.Column("actor", sa.String(64), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("registry_alias_changes", "actor")
