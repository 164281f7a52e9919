"""Which completions have texts still, so that old ones are found however long nobody has looked for them."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # True for all: who has none is found out when it is old.
    op.add_column("gateway_completions", sa.Column("has_texts", sa.Boolean, nullable=False, server_default=sa.true()))
    op.create_index("gateway_completions_with_texts", "gateway_completions", ["has_texts", "start_time"])


def downgrade() -> None:
    op.drop_index("gateway_completions_with_texts", "gateway_completions")
    op.drop_column("gateway_completions", "has_texts")
