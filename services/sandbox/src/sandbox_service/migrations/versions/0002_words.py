"""States and priorities are lower-case words; a hold has the names that it has in every service.

By statements that change a table in place. Alembic's batch mode makes SQLite's table anew, and dropping the old one
would delete all rows that refer to it.

Revision ID: sandbox_0002
"""

from alembic import op

revision = "sandbox_0002"
down_revision = "sandbox_0001"
branch_labels = None
depends_on = None

_BATCHES, _CHUNKS = "ALTER TABLE sandbox_batches", "ALTER TABLE sandbox_batch_chunks"


def upgrade() -> None:
    op.execute(f"{_BATCHES} ADD COLUMN word VARCHAR(16) NOT NULL DEFAULT 'normal'")
    op.execute("UPDATE sandbox_batches SET word = CASE priority WHEN 0 THEN 'high' WHEN 2 THEN 'low' ELSE 'normal' END")
    op.execute(f"{_BATCHES} DROP COLUMN priority")
    op.execute(f"{_BATCHES} RENAME COLUMN word TO priority")
    op.execute("UPDATE sandbox_batches SET state = lower(state)")
    op.execute(f"{_CHUNKS} RENAME COLUMN owner TO held_by")
    op.execute(f"{_CHUNKS} RENAME COLUMN until TO held_until")


def downgrade() -> None:
    op.execute(f"{_CHUNKS} RENAME COLUMN held_until TO until")
    op.execute(f"{_CHUNKS} RENAME COLUMN held_by TO owner")
    op.execute("UPDATE sandbox_batches SET state = upper(state)")
    op.execute(f"{_BATCHES} ADD COLUMN number INTEGER NOT NULL DEFAULT 1")
    op.execute("UPDATE sandbox_batches SET number = CASE priority WHEN 'high' THEN 0 WHEN 'low' THEN 2 ELSE 1 END")
    op.execute(f"{_BATCHES} DROP COLUMN priority")
    op.execute(f"{_BATCHES} RENAME COLUMN number TO priority")
