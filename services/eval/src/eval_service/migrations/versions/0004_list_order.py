"""Lists of a model's evaluations, or of a state, come in the order of an index: SQLite sorted all for each page.

Revision ID: eval_0014
"""

from alembic import op

revision = "eval_0014"
down_revision = "eval_0013"


def upgrade() -> None:
    for column in ("model_name", "state"):
        op.drop_index(f"ix_eval_evaluations_{column}", "eval_evaluations")
        op.create_index(f"ix_eval_evaluations_{column}", "eval_evaluations", [column, "id"])
