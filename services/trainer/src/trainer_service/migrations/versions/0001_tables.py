"""The tables of this service.

It takes the place of all revisions before the first release, and has the name of the last of them, so that a database
at that revision goes on as it is. Each change of the tables after it is a file of its own.

Revision ID: trainer_0012
"""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "trainer_0012"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "trainer_runs",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("request_id", sa.String(200), nullable=False, unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("failure_code", sa.String(40)),
        sa.Column("failure_message", sa.Text, nullable=False),
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
        sa.Column("phase", sa.String(20)),
        sa.Column("phase_time", UtcDateTime),
        sa.Column("actor", sa.String(64), nullable=False),
        sa.Column("cancel_actor", sa.String(64), nullable=False),
        sa.Column("fruitful_attempt", sa.Integer, nullable=False),
        sa.Column("estimate", sa.Text, nullable=False),
        sa.Column("out_of_memory", sa.Integer, nullable=False),
        sa.Column("notices", sa.Text, nullable=False),
        sa.Column("place", sa.String(200), nullable=False),
        sa.Column("heartbeat_time", UtcDateTime),
        sa.Column("resumes", sa.Integer, nullable=False),
        sa.Column("resume_actor", sa.String(64), nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("tracks", sa.Text, nullable=False),
        sa.Column("is_tracked", sa.Boolean, nullable=False),
        sa.Column("preempted_by", sa.String(64), nullable=False),
        sa.Column("preemptions", sa.Integer, nullable=False),
    )
    op.create_index("ix_trainer_runs_is_tracked", "trainer_runs", ["is_tracked"])
    op.create_index("ix_trainer_runs_state", "trainer_runs", ["state"])
    op.create_table(
        "trainer_checkpoints",
        sa.Column("run_id", sa.String(64), primary_key=True),
        sa.Column("step", sa.Integer, primary_key=True),
        sa.Column("uri", sa.Text, nullable=False),
        sa.Column("policy_id", sa.String(80), nullable=False),
        sa.Column("validation_score", sa.Float),
        sa.Column("validation_low", sa.Float),
        sa.Column("validation_high", sa.Float),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["trainer_runs.id"], ondelete="CASCADE"),
    )
    op.create_table(
        "trainer_steps",
        sa.Column("run_id", sa.String(64), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("metrics", sa.Text, nullable=False),
        sa.Column("policy_id", sa.String(80), nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("platform_faults", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["trainer_runs.id"], ondelete="CASCADE"),
    )
