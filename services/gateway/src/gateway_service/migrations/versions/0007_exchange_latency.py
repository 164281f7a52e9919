"""How long the answers of a kept exchange took.

Revision ID: gateway_0020
"""

import sqlalchemy as sa
from alembic import op

revision = "gateway_0020"
down_revision = "gateway_0019"


def upgrade() -> None:
    op.add_column("gateway_exchanges", sa.Column("latency_s", sa.Float(), nullable=False, server_default="0"))
