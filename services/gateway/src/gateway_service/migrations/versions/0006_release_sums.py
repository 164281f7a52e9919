"""Sums that a release is judged by, and callers who left.

A release that is under way starts its sums anew: its present stage lasts until they hold enough.
"""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "gateway_release_sums",
        sa.Column("release_id", sa.String(40), primary_key=True),
        sa.Column("arm", sa.String(16), primary_key=True),
        sa.Column("stage", sa.Integer, primary_key=True),
        sa.Column("unit", sa.String(32), primary_key=True),
        sa.Column("requests", sa.Integer, nullable=False),
        sa.Column("errors", sa.Integer, nullable=False),
        sa.Column("has_left", sa.Integer, nullable=False),
        sa.Column("scored", sa.Integer, nullable=False),
        sa.Column("score", sa.Float, nullable=False),
        sa.Column("score_squares", sa.Float, nullable=False),
        sa.Column("update_time", UtcDateTime, nullable=False),
    )
    op.create_index("ix_gateway_release_sums_update_time", "gateway_release_sums", ["update_time"])
    op.add_column("gateway_completions", sa.Column("has_left", sa.Boolean, nullable=False, server_default=sa.false()))
    op.drop_index("gateway_completions_by_release", "gateway_completions")
    op.create_index("gateway_completions_by_release", "gateway_completions", ["release_id", "arm", "id"])


def downgrade() -> None:
    op.drop_index("gateway_completions_by_release", "gateway_completions")
    op.create_index("gateway_completions_by_release", "gateway_completions", ["release_id", "stage", "arm"])
    op.drop_column("gateway_completions", "has_left")
    op.drop_table("gateway_release_sums")
