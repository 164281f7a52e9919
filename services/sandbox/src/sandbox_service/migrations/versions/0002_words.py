"""States and priorities are lower-case words; a hold has the names that it has in every service.

Revision ID: sandbox_0002
"""

import sqlalchemy as sa
from alembic import op

revision = "sandbox_0002"
down_revision = "sandbox_0001"
branch_labels = None
depends_on = None

_PRIORITIES = {"0": "high", "1": "normal", "2": "low"}


def upgrade() -> None:
    with op.batch_alter_table("sandbox_batches") as table:
        table.alter_column(
            "priority", existing_type=sa.Integer, type_=sa.String(16), postgresql_using="priority::varchar"
        )
    for number, word in _PRIORITIES.items():
        op.execute(f"UPDATE sandbox_batches SET priority = '{word}' WHERE priority = '{number}'")
    op.execute("UPDATE sandbox_batches SET state = lower(state)")
    with op.batch_alter_table("sandbox_batch_chunks") as table:
        table.alter_column("owner", new_column_name="held_by", existing_type=sa.Text, type_=sa.String(200))
        table.alter_column("until", new_column_name="held_until", existing_type=sa.DateTime(timezone=True))


def downgrade() -> None:
    with op.batch_alter_table("sandbox_batch_chunks") as table:
        table.alter_column("held_until", new_column_name="until", existing_type=sa.DateTime(timezone=True))
        table.alter_column("held_by", new_column_name="owner", existing_type=sa.String(200), type_=sa.Text)
    op.execute("UPDATE sandbox_batches SET state = upper(state)")
    for number, word in _PRIORITIES.items():
        op.execute(f"UPDATE sandbox_batches SET priority = '{number}' WHERE priority = '{word}'")
    with op.batch_alter_table("sandbox_batches") as table:
        table.alter_column(
            "priority", existing_type=sa.String(16), type_=sa.Integer, postgresql_using="priority::integer"
        )
