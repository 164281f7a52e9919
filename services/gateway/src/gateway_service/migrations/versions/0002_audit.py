"""The audit log.

Revision ID: gateway_0015
"""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "gateway_0015"
down_revision = "0014"


def upgrade() -> None:
    op.create_table(
        "gateway_audit",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("actor", sa.String(40), nullable=False),
        sa.Column("actor_name", sa.Text, nullable=False),
        sa.Column("method", sa.String(100), nullable=False),
        sa.Column("resource", sa.Text, nullable=False),
        sa.Column("code", sa.String(32), nullable=False),
        sa.Column("request_id", sa.Text, nullable=False),
    )
    op.create_index("ix_gateway_audit_create_time", "gateway_audit", ["create_time"])
    op.create_index("gateway_audit_by_actor", "gateway_audit", ["actor", "id"])
