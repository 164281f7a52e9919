"""Runs know where the job of their attempt was submitted and when it last said that it lives; they can be resumed.

Revision ID: trainer_0006
"""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "trainer_0006"
down_revision = "trainer_0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("trainer_runs", sa.Column("place", sa.String(200), nullable=False, server_default=""))
    op.add_column("trainer_runs", sa.Column("heartbeat_time", UtcDateTime))
    op.add_column("trainer_runs", sa.Column("resumes", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("trainer_runs", sa.Column("resume_actor", sa.String(64), nullable=False, server_default=""))


def downgrade() -> None:
    for name in ("resume_actor", "resumes", "heartbeat_time", "place"):
        op.drop_column("trainer_runs", name)
