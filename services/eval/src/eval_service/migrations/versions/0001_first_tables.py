"""First tables.

Revision ID: eval_0001
"""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "eval_0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "eval_evaluations",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("samples_per_problem", sa.Integer, nullable=False),
        sa.Column("model", sa.JSON, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("policy_id", sa.String(80), nullable=False),
        sa.Column("problems_total", sa.Integer, nullable=False),
        sa.Column("pass_at_k", sa.JSON, nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("start_time", UtcDateTime),
        sa.Column("end_time", UtcDateTime),
        sa.Column("hold_owner", sa.String(200)),
        sa.Column("hold_until", UtcDateTime),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("request_id", sa.String(200), nullable=False, unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
    )
    op.create_index("ix_eval_evaluations_state", "eval_evaluations", ["state"])
    op.create_table(
        "eval_samples",
        sa.Column("evaluation_id", sa.String(64), sa.ForeignKey("eval_evaluations.id"), primary_key=True),
        sa.Column("problem_id", sa.Text, primary_key=True),
        sa.Column("index", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("completion", sa.Text, nullable=False),
        sa.Column("verdict", sa.String(32), nullable=False),
        sa.Column("tests_passed", sa.Integer, nullable=False),
        sa.Column("tests_total", sa.Integer, nullable=False),
        sa.Column("policy_id", sa.String(80), nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("eval_samples")
    op.drop_table("eval_evaluations")
