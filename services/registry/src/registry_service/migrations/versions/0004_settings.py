"""Versions have a hash of what stands beside their weights: config, tokenizer, chat template.

Revision ID: registry_0004
"""

import sqlalchemy as sa
from alembic import op

revision = "registry_0004"
down_revision = "registry_0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Those that are there already keep none: their files would have to be read.
    op.add_column("registry_versions", sa.Column("settings_id", sa.String(80), nullable=False, server_default=""))
