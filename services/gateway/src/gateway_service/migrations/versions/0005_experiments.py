"""Experiments, and the place of each request in them."""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

COLUMNS = {"experiment_id": 40, "variant": 63, "unit": 32}


def upgrade() -> None:
    op.create_table(
        "gateway_experiments",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("request_id", sa.String(200), nullable=False, unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("model", sa.String(63), nullable=False),
        sa.Column("active", sa.Boolean, nullable=False),
        sa.Column("start_time", UtcDateTime, nullable=True),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
    )
    op.create_index("ix_gateway_experiments_active", "gateway_experiments", ["active"])
    op.create_index("gateway_experiments_by_model", "gateway_experiments", ["model", "id"])
    for name, length in COLUMNS.items():
        op.add_column("gateway_completions", sa.Column(name, sa.String(length), nullable=False, server_default=""))
    op.create_index("gateway_completions_by_experiment", "gateway_completions", list(COLUMNS))


def downgrade() -> None:
    op.drop_index("gateway_completions_by_experiment", "gateway_completions")
    for name in COLUMNS:
        op.drop_column("gateway_completions", name)
    op.drop_table("gateway_experiments")
