"""Episodes of samples: turns, errors of tools, the record.

Revision ID: eval_0018
"""

import sqlalchemy as sa
from alembic import op

revision = "eval_0018"
down_revision = "eval_0017"


def upgrade() -> None:
    op.add_column("eval_samples", sa.Column("turns", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("eval_samples", sa.Column("tool_errors", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("eval_samples", sa.Column("record", sa.LargeBinary()))
