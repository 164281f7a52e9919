"""A run counts the tokens that it has trained on.

Revision ID: trainer_0009
"""

import sqlalchemy as sa
from alembic import op

revision = "trainer_0009"
down_revision = "trainer_0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("trainer_runs", sa.Column("tokens", sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("trainer_runs", "tokens")
