"""An index of versions by state, for lists of those that failed.

Revision ID: registry_0011
"""

from alembic import op

revision = "registry_0011"
down_revision = "registry_0010"


def upgrade() -> None:
    op.create_index("ix_registry_versions_state", "registry_versions", ["state"])
