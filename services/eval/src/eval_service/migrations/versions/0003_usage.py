"""What an evaluation has used.

Revision ID: eval_0013
"""

import sqlalchemy as sa
from alembic import op

revision = "eval_0013"
down_revision = "eval_0012"


def upgrade() -> None:
    op.add_column("eval_evaluations", sa.Column("usage", sa.Text(), nullable=False, server_default="{}"))
