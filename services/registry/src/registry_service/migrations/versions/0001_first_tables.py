"""First tables.

Revision ID: registry_0001
"""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "registry_0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "registry_models",
        sa.Column("name", sa.String(63), primary_key=True),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("latest_version", sa.Integer, nullable=False),
    )
    op.create_table(
        "registry_versions",
        sa.Column("model", sa.String(63), sa.ForeignKey("registry_models.name"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("artifact_uri", sa.Text, nullable=False),
        sa.Column("artifact_sha256", sa.String(64), nullable=False),
        sa.Column("policy_id", sa.String(80), nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("lineage", sa.JSON, nullable=False),
        sa.Column("labels", sa.JSON, nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("request_id", sa.String(200), nullable=False, unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
    )
    op.create_index("ix_registry_versions_policy_id", "registry_versions", ["policy_id"])
    op.create_table(
        "registry_uploads",
        sa.Column("key", sa.String(200), primary_key=True),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("abandoned", sa.Boolean, nullable=False),
    )
    op.create_table(
        "registry_aliases",
        sa.Column("model", sa.String(63), primary_key=True),
        sa.Column("alias", sa.String(63), primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.ForeignKeyConstraint(["model", "version"], ["registry_versions.model", "registry_versions.number"]),
    )
    op.create_table(
        "registry_alias_changes",
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("model", sa.String(63), sa.ForeignKey("registry_models.name"), nullable=False),
        sa.Column("alias", sa.String(63), nullable=False),
        sa.Column("from_version", sa.Integer, nullable=False),
        sa.Column("to_version", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("gate_id", sa.String(64), nullable=False),
        sa.Column("time", UtcDateTime, nullable=False),
    )
    op.create_index("registry_alias_changes_by_alias", "registry_alias_changes", ["model", "alias", "position"])
    op.create_table(
        "registry_gates",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("model", sa.String(63), sa.ForeignKey("registry_models.name"), nullable=False),
        sa.Column("candidate_version", sa.Integer, nullable=False),
        sa.Column("champion_version", sa.Integer, nullable=False),
        sa.Column("candidate_evaluation", sa.String(200), nullable=False),
        sa.Column("champion_evaluation", sa.String(200), nullable=False),
        sa.Column("difference", sa.Float, nullable=False),
        sa.Column("difference_low", sa.Float, nullable=False),
        sa.Column("difference_high", sa.Float, nullable=False),
        sa.Column("p_value", sa.Float, nullable=False),
        sa.Column("passed", sa.Boolean, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("min_difference", sa.Float, nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("request_id", sa.String(200), nullable=False, unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
    )
    op.create_index("ix_registry_gates_model", "registry_gates", ["model"])


def downgrade() -> None:
    for table in ("gates", "alias_changes", "aliases", "uploads", "versions", "models"):
        op.drop_table(f"registry_{table}")
