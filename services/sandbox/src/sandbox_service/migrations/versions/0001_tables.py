"""The tables of this service.

It takes the place of all revisions before the first release, and has the name of the last of them, so that a database
at that revision goes on as it is. Each change of the tables after it is a file of its own.

Revision ID: sandbox_0003
"""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "sandbox_0003"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "sandbox_batches",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("programs_total", sa.Integer, nullable=False),
        sa.Column("priority", sa.String(16), nullable=False),
        sa.Column("caller", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("end_time", UtcDateTime),
        sa.Column("request_id", sa.String(200), nullable=False, unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
    )
    op.create_index("ix_sandbox_batches_caller", "sandbox_batches", ["caller", "id"])
    op.create_index("ix_sandbox_batches_state", "sandbox_batches", ["state"])
    op.create_table(
        "sandbox_batch_chunks",
        sa.Column("batch_id", sa.String(64), primary_key=True),
        sa.Column("first", sa.Integer, autoincrement=False, primary_key=True),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("done", sa.Boolean, nullable=False),
        sa.Column("held_by", sa.String(200), nullable=False),
        sa.Column("held_until", UtcDateTime),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.ForeignKeyConstraint(["batch_id"], ["sandbox_batches.id"], ondelete="CASCADE"),
    )
    op.create_table(
        "sandbox_batch_programs",
        sa.Column("batch_id", sa.String(64), primary_key=True),
        sa.Column("index", sa.Integer, autoincrement=False, primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.ForeignKeyConstraint(["batch_id"], ["sandbox_batches.id"], ondelete="CASCADE"),
    )
    op.create_table(
        "sandbox_batch_records",
        sa.Column("batch_id", sa.String(64), primary_key=True),
        sa.Column("index", sa.Integer, autoincrement=False, primary_key=True),
        sa.Column("verdict", sa.String(32), nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.ForeignKeyConstraint(
            ["batch_id", "index"],
            ["sandbox_batch_programs.batch_id", "sandbox_batch_programs.index"],
            ondelete="CASCADE",
        ),
    )
