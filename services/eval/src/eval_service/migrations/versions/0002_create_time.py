"""An index for lists of evaluations since a time.

Revision ID: eval_0012
"""

from alembic import op

revision = "eval_0012"
down_revision = "eval_0011"


def upgrade() -> None:
    op.create_index("ix_eval_evaluations_create_time", "eval_evaluations", ["create_time"])
