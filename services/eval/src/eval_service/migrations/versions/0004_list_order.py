"""Lists of evaluations of a model, or in a state, come in the order of an index: of 10,000, SQLite sorted all for a page.

Revision ID: eval_0014
"""

from alembic import op

revision = "eval_0014"
down_revision = "eval_0013"


def upgrade() -> None:
    for column in ("model_name", "state"):
        op.drop_index(f"ix_eval_evaluations_{column}", "eval_evaluations")
        op.create_index(f"ix_eval_evaluations_{column}", "eval_evaluations", [column, "id"])
