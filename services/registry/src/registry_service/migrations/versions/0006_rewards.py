"""Rewards of one's own have versions, and what runs were made with them is known.

Revision ID: registry_0006
"""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "registry_0006"
down_revision = "registry_0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "registry_reward_names",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("latest_number", sa.Integer, nullable=False),
    )
    op.create_table(
        "registry_rewards",
        sa.Column("name", sa.String(40), sa.ForeignKey("registry_reward_names.name"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("digest", sa.String(80), nullable=False),
        sa.Column("size_bytes", sa.Integer, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("actor", sa.String(64), nullable=False),
        sa.Column("runs", sa.Integer, nullable=False),
        sa.Column("last_run_id", sa.String(64), nullable=False),
        sa.Column("request_id", sa.String(200), nullable=False, unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.UniqueConstraint("name", "digest"),
    )
    op.create_table(
        "registry_reward_uses",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("run_id", sa.String(64), primary_key=True),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.ForeignKeyConstraint(["name", "number"], ["registry_rewards.name", "registry_rewards.number"]),
    )


def downgrade() -> None:
    for table in ("registry_reward_uses", "registry_rewards", "registry_reward_names"):
        op.drop_table(table)
