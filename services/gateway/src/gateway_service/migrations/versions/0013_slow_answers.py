"""How many answers of a release were slow.

A release that is under way counts them from now on, in both arms.
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("timed", "slow"):
        op.add_column("gateway_release_sums", sa.Column(name, sa.Integer, nullable=False, server_default="0"))


def downgrade() -> None:
    for name in ("timed", "slow"):
        op.drop_column("gateway_release_sums", name)
