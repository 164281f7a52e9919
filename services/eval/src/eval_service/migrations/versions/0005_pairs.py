"""Pairs of samples that people choose between.

Revision ID: eval_0005
"""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "eval_0005"
down_revision = "eval_0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "eval_pairs",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("voter", sa.String(200), nullable=False),
        sa.Column("benchmark", sa.String(500), nullable=False),
        sa.Column("problem_id", sa.Text, nullable=False),
        sa.Column("prompt", sa.Text, nullable=False),
        sa.Column("left_id", sa.String(64), nullable=False),
        sa.Column("left_index", sa.Integer, nullable=False),
        sa.Column("left_text", sa.Text, nullable=False),
        sa.Column("right_id", sa.String(64), nullable=False),
        sa.Column("right_index", sa.Integer, nullable=False),
        sa.Column("right_text", sa.Text, nullable=False),
        sa.Column("choice", sa.String(16), nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("vote_time", UtcDateTime),
        sa.Column("request_id", sa.String(200), nullable=False, unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
    )
    for name in ("left_id", "right_id"):
        op.create_index(f"ix_eval_pairs_{name}", "eval_pairs", [name])


def downgrade() -> None:
    op.drop_table("eval_pairs")
