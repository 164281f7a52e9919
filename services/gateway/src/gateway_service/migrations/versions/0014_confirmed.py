"""Who is forgotten, and the registry does not know it yet.

Whoever was forgotten before is told of, too: data sets hold nothing of them, and nothing comes into one.
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("gateway_forgotten", sa.Column("confirmed", sa.Boolean, nullable=False, server_default=sa.false()))


def downgrade() -> None:
    op.drop_column("gateway_forgotten", "confirmed")
