"""What was looked at is found by problems, and outlives its evaluation.

Revision ID: eval_0010
"""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "eval_0010"
down_revision = "eval_0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("eval_problems", sa.Column("tests", sa.String(64), nullable=False, server_default=""))
    for name in ("fingerprint", "tests"):
        op.create_index(f"ix_eval_problems_{name}", "eval_problems", [name])
    op.create_table(
        "eval_deleted_evaluations",
        sa.Column("evaluation_id", sa.String(64), primary_key=True),
        sa.Column("model_name", sa.String(200), nullable=False),
        sa.Column("policy_id", sa.String(80), nullable=False),
        sa.Column("start_time", UtcDateTime, nullable=False),
        sa.Column("setup", sa.String(64), nullable=False),
    )
    op.create_table(
        "eval_deleted_problems",
        sa.Column(
            "evaluation_id", sa.String(64), sa.ForeignKey("eval_deleted_evaluations.evaluation_id"), primary_key=True
        ),
        sa.Column("fingerprint", sa.String(64), primary_key=True),
        sa.Column("tests", sa.String(64), primary_key=True),
    )
    for name in ("fingerprint", "tests"):
        op.create_index(f"ix_eval_deleted_problems_{name}", "eval_deleted_problems", [name])


def downgrade() -> None:
    op.drop_table("eval_deleted_problems")
    op.drop_table("eval_deleted_evaluations")
    for name in ("fingerprint", "tests"):
        op.drop_index(f"ix_eval_problems_{name}", "eval_problems")
    op.drop_column("eval_problems", "tests")
