"""Findings of examinations are kept one by one, with what people decided about them.

Versions that were examined before have none: their notices stay.

Revision ID: registry_0009
"""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "registry_0009"
down_revision = "registry_0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "registry_dataset_decisions",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("split", sa.String(400), nullable=False),
        sa.Column("problem", sa.String(400), nullable=False),
        sa.Column("other_set", sa.String(400), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("actor", sa.String(64), nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
    )
    op.create_table(
        "registry_dataset_findings",
        sa.Column("name", sa.String(63), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("place", sa.Integer, primary_key=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("split", sa.String(40), nullable=False),
        sa.Column("digest", sa.String(80), nullable=False),
        sa.Column("problem", sa.Text, nullable=False),
        sa.Column("other_set", sa.Text, nullable=False),
        sa.Column("other_digest", sa.String(80), nullable=False),
        sa.Column("other", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("decision_id", sa.String(64), sa.ForeignKey("registry_dataset_decisions.id")),
    )
    for suffix, columns in (("problem", ["name", "number", "problem"]), ("digest", ["digest", "decision_id"])):
        op.create_index(f"ix_registry_dataset_findings_{suffix}", "registry_dataset_findings", columns)


def downgrade() -> None:
    for table in ("registry_dataset_findings", "registry_dataset_decisions"):
        op.drop_table(table)
