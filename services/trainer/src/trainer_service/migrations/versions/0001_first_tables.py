"""First tables.

Revision ID: trainer_0001
"""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "trainer_0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "trainer_runs",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("request_id", sa.String(200), nullable=False, unique=True),
        sa.Column("fingerprint", sa.String(80), nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("step", sa.Integer, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("platform_faults", sa.BigInteger, nullable=False),
        sa.Column("version", sa.String(200), nullable=False),
        sa.Column("best_step", sa.Integer),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("update_time", UtcDateTime, nullable=False),
        sa.Column("start_time", UtcDateTime),
        sa.Column("trained_time", UtcDateTime),
        sa.Column("end_time", UtcDateTime),
    )
    op.create_index("ix_trainer_runs_state", "trainer_runs", ["state"])
    op.create_table(
        "trainer_steps",
        sa.Column("run_id", sa.String(64), sa.ForeignKey("trainer_runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("metrics", sa.Text, nullable=False),
        sa.Column("policy_id", sa.String(80), nullable=False),
        sa.Column("time", UtcDateTime, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("platform_faults", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "trainer_checkpoints",
        sa.Column("run_id", sa.String(64), sa.ForeignKey("trainer_runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("step", sa.Integer, primary_key=True),
        sa.Column("uri", sa.Text, nullable=False),
        sa.Column("policy_id", sa.String(80), nullable=False),
        sa.Column("validation_score", sa.Float),
        sa.Column("time", UtcDateTime, nullable=False),
    )


def downgrade() -> None:
    for table in ("trainer_checkpoints", "trainer_steps", "trainer_runs"):
        op.drop_table(table)
