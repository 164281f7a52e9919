"""Each change of a key has a number, so that gateways that have the keys in memory read only what is new."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    revisions = op.create_table(
        "gateway_revisions",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("revision", sa.Integer, nullable=False),
    )
    op.bulk_insert(revisions, [{"name": "keys", "revision": 1}])
    op.add_column("gateway_api_keys", sa.Column("revision", sa.Integer, nullable=False, server_default="1"))
    op.create_index("ix_gateway_api_keys_revision", "gateway_api_keys", ["revision"])


def downgrade() -> None:
    op.drop_index("ix_gateway_api_keys_revision", "gateway_api_keys")
    op.drop_column("gateway_api_keys", "revision")
    op.drop_table("gateway_revisions")
