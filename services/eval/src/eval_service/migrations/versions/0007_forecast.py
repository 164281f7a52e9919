"""What an evaluation is expected to use.

Revision ID: eval_0017
"""

import sqlalchemy as sa
from alembic import op

revision = "eval_0017"
down_revision = "eval_0016"


def upgrade() -> None:
    op.add_column("eval_evaluations", sa.Column("forecast", sa.Text(), nullable=False, server_default="null"))
