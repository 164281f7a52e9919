"""The tests that a sample failed.

Revision ID: eval_0013
"""

import sqlalchemy as sa
from alembic import op

revision = "eval_0013"
down_revision = "eval_0012"


def upgrade() -> None:
    op.add_column("eval_samples", sa.Column("failed_tests", sa.JSON, nullable=False, server_default="[]"))
    op.add_column("eval_samples", sa.Column("held_out_failed", sa.Integer, nullable=False, server_default="0"))
