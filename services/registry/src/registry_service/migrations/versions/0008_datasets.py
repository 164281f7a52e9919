"""Data sets have versions, and what used them is known.

Revision ID: registry_0008
"""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "registry_0008"
down_revision = "registry_0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "registry_dataset_names",
        sa.Column("name", sa.String(63), primary_key=True),
        sa.Column("latest_number", sa.Integer, nullable=False),
    )
    op.create_table(
        "registry_datasets",
        sa.Column("name", sa.String(63), sa.ForeignKey("registry_dataset_names.name"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("card", sa.JSON, nullable=False),
        sa.Column("splits", sa.JSON, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("actor", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("failure_code", sa.String(32)),
        sa.Column("failure_message", sa.Text),
        sa.Column("end_time", UtcDateTime),
        sa.Column("uses", sa.Integer, nullable=False),
        sa.Column("last_user", sa.String(64), nullable=False),
        sa.Column("held_by", sa.String(200), nullable=False),
        sa.Column("held_until", UtcDateTime),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("request_id", sa.String(200), nullable=False, unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
    )
    op.create_index("ix_registry_datasets_digest", "registry_datasets", ["digest"])
    op.create_table(
        "registry_dataset_uses",
        sa.Column("name", sa.String(63), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("user", sa.String(64), primary_key=True),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.ForeignKeyConstraint(["name", "number"], ["registry_datasets.name", "registry_datasets.number"]),
    )


def downgrade() -> None:
    for table in ("registry_dataset_uses", "registry_datasets", "registry_dataset_names"):
        op.drop_table(table)
