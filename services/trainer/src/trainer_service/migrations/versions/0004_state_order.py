"""Lists of runs in a state come in the order of an index: SQLite sorted all for each page.

Revision ID: trainer_0015
"""

from alembic import op

revision = "trainer_0015"
down_revision = "trainer_0014"


def upgrade() -> None:
    op.drop_index("ix_trainer_runs_state", "trainer_runs")
    op.create_index("ix_trainer_runs_state", "trainer_runs", ["state", "id"])
