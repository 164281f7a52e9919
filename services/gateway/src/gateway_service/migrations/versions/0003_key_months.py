"""Tokens that keys may use, and have used, in a month.

Revision ID: gateway_0016
"""

import sqlalchemy as sa
from alembic import op

revision = "gateway_0016"
down_revision = "gateway_0015"


def upgrade() -> None:
    op.add_column("gateway_api_keys", sa.Column("monthly_tokens", sa.BigInteger(), nullable=False, server_default="0"))
    op.create_table(
        "gateway_key_months",
        sa.Column("month", sa.String(7), primary_key=True),
        sa.Column("key_id", sa.String(40), primary_key=True),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
    )
