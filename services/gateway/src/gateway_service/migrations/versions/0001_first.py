"""Releases, the request log and API keys."""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "gateway_releases",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("request_id", sa.String(200), nullable=False, unique=True),
        sa.Column("model", sa.String(63), nullable=False),
        sa.Column("active_model", sa.String(63), nullable=True, unique=True),
        sa.Column("unfinished", sa.Boolean, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
    )
    op.create_index("ix_gateway_releases_unfinished", "gateway_releases", ["unfinished"])
    op.create_index("gateway_releases_by_model", "gateway_releases", ["model", "id"])
    op.create_table(
        "gateway_completions",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("time", UtcDateTime, nullable=False),
        sa.Column("model", sa.String(63), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("policy_id", sa.String(80), nullable=False),
        sa.Column("arm", sa.String(16), nullable=False),
        sa.Column("release_id", sa.String(40), nullable=False),
        sa.Column("stage", sa.Integer, nullable=False),
        sa.Column("latency_s", sa.Float, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("prompt_tokens", sa.Integer, nullable=False),
        sa.Column("completion_tokens", sa.Integer, nullable=False),
        sa.Column("texts", sa.JSON, nullable=False),
        sa.Column("score", sa.Float, nullable=True),
        sa.Column("problem_set", sa.Text, nullable=False),
        sa.Column("problem_id", sa.Text, nullable=False),
    )
    op.create_index("ix_gateway_completions_time", "gateway_completions", ["time"])
    op.create_index("gateway_completions_by_release", "gateway_completions", ["release_id", "stage", "arm"])
    op.create_index("gateway_completions_by_version", "gateway_completions", ["model", "version", "time"])
    op.create_table(
        "gateway_api_keys",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        sa.Column("hint", sa.String(16), nullable=False),
        sa.Column("scopes", sa.JSON, nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("revoke_time", UtcDateTime, nullable=True),
    )


def downgrade() -> None:
    for table in ("gateway_api_keys", "gateway_completions", "gateway_releases"):
        op.drop_table(table)
