"""A problem's kind of grading comes from its reference. Those that passed before it was looked at are tried again.

Revision ID: eval_0006
"""

import sqlalchemy as sa
from alembic import op

revision = "eval_0006"
down_revision = "eval_0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_table("eval_sound_problems")
    op.create_table(
        "eval_sound_problems",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("shared", sa.JSON, nullable=False),
    )


def downgrade() -> None:
    raise NotImplementedError("there is no way back: the code before this revision cannot read what comes after it")
