"""What feedback measured of completions, by names of the application's own."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("gateway_completions", sa.Column("metrics", sa.JSON, nullable=False, server_default="{}"))


def downgrade() -> None:
    op.drop_column("gateway_completions", "metrics")
