"""Whose pairs data sets hold, and who is forgotten.

Revision ID: registry_0010
"""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "registry_0010"
down_revision = "registry_0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "registry_dataset_units",
        sa.Column("unit", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(63), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("time", UtcDateTime, nullable=False),
    )
    op.create_table(
        "registry_forgotten",
        sa.Column("unit", sa.String(64), primary_key=True),
        sa.Column("forget_time", UtcDateTime, nullable=False),
    )


def downgrade() -> None:
    for table in ("registry_forgotten", "registry_dataset_units"):
        op.drop_table(table)
