"""Keys have models, an end, and who made and revoked them.

Releases keep who asked for them in their document, where what is absent has its default.
"""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("gateway_api_keys", sa.Column("models", sa.JSON, nullable=False, server_default="[]"))
    op.add_column("gateway_api_keys", sa.Column("expire_time", UtcDateTime))
    for name in ("actor", "revoke_actor"):
        op.add_column("gateway_api_keys", sa.Column(name, sa.String(40), nullable=False, server_default=""))


def downgrade() -> None:
    for name in ("revoke_actor", "actor", "expire_time", "models"):
        op.drop_column("gateway_api_keys", name)
