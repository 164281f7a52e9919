"""Webhooks and their deliveries."""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime, request_columns

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "gateway_webhooks",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("kinds", sa.JSON, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("actor", sa.String(40), nullable=False),
        *request_columns(),
    )
    op.create_table(
        "gateway_deliveries",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("webhook_id", sa.String(40), nullable=False),
        sa.Column("event_id", sa.String(80), nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("next_time", UtcDateTime, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("end_time", UtcDateTime, nullable=True),
        sa.UniqueConstraint("webhook_id", "event_id", name="gateway_deliveries_once"),
    )
    op.create_index("gateway_deliveries_by_webhook", "gateway_deliveries", ["webhook_id", "id"])
    op.create_index("gateway_deliveries_due", "gateway_deliveries", ["state", "next_time"])
    op.create_index("ix_gateway_deliveries_end_time", "gateway_deliveries", ["end_time"])


def downgrade() -> None:
    op.drop_table("gateway_deliveries")
    op.drop_table("gateway_webhooks")
