"""What an evaluation has used.

Revision ID: eval_0015
"""

import sqlalchemy as sa
from alembic import op

revision = "eval_0015"
down_revision = "eval_0014"


def upgrade() -> None:
    op.add_column("eval_evaluations", sa.Column("usage", sa.Text(), nullable=False, server_default="{}"))
