"""A checkpoint's validation score has an interval.

Revision ID: trainer_0008
"""

import sqlalchemy as sa
from alembic import op

revision = "trainer_0008"
down_revision = "trainer_0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("validation_low", "validation_high"):
        op.add_column("trainer_checkpoints", sa.Column(name, sa.Float()))


def downgrade() -> None:
    for name in ("validation_high", "validation_low"):
        op.drop_column("trainer_checkpoints", name)
