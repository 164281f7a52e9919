"""Who created an evaluation.

Revision ID: eval_0016
"""

import sqlalchemy as sa
from alembic import op

revision = "eval_0016"
down_revision = "eval_0015"


def upgrade() -> None:
    op.add_column("eval_evaluations", sa.Column("actor", sa.String(64), nullable=False, server_default=""))
