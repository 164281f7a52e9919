"""Specs say `shares_gpu` in place of `takes_turns`.

Revision ID: trainer_0019
"""

from alembic import op

revision = "trainer_0019"
down_revision = "trainer_0018"


def upgrade() -> None:
    op.execute("""UPDATE trainer_runs SET spec = replace(spec, '"takes_turns"', '"shares_gpu"')""")
