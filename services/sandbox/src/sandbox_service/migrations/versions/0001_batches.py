"""Batches of programs.

Revision ID: sandbox_0001
"""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "sandbox_0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sandbox_batches",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("programs_total", sa.Integer, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("caller", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("end_time", UtcDateTime),
        sa.Column("request_id", sa.String(200), nullable=False, unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
    )
    op.create_index("ix_sandbox_batches_state", "sandbox_batches", ["state"])
    of_a_batch = "sandbox_batches.id"
    op.create_table(
        "sandbox_batch_chunks",
        sa.Column("batch_id", sa.String(64), sa.ForeignKey(of_a_batch, ondelete="CASCADE"), primary_key=True),
        sa.Column("first", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("until", UtcDateTime),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("done", sa.Boolean, nullable=False),
    )
    op.create_table(
        "sandbox_batch_programs",
        sa.Column("batch_id", sa.String(64), sa.ForeignKey(of_a_batch, ondelete="CASCADE"), primary_key=True),
        sa.Column("index", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "sandbox_batch_records",
        sa.Column("batch_id", sa.String(64), primary_key=True),
        sa.Column("index", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("verdict", sa.String(32), nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.ForeignKeyConstraint(
            ["batch_id", "index"],
            ["sandbox_batch_programs.batch_id", "sandbox_batch_programs.index"],
            ondelete="CASCADE",
        ),
    )


def downgrade() -> None:
    for table in ("records", "programs", "chunks"):
        op.drop_table(f"sandbox_batch_{table}")
    op.drop_table("sandbox_batches")
