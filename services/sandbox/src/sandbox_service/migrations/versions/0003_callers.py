"""Batches are listed by their caller, and a request's id is the caller's own: what is kept of it is a digest of both.

Revision ID: sandbox_0003
"""

import hashlib

import sqlalchemy as sa
from alembic import op

revision = "sandbox_0003"
down_revision = "sandbox_0002"
branch_labels = None
depends_on = None

_batches = sa.table("sandbox_batches", sa.column("id"), sa.column("caller"), sa.column("request_id"))


def upgrade() -> None:
    op.create_index("ix_sandbox_batches_caller", "sandbox_batches", ["caller", "id"])
    connection = op.get_bind()
    for row in connection.execute(sa.select(_batches)).all():
        if row.caller:
            key = hashlib.sha256(f"{len(row.caller)} {row.caller} {row.request_id}".encode()).hexdigest()
            connection.execute(_batches.update().where(_batches.c.id == row.id).values(request_id=key))


def downgrade() -> None:
    """The ids of requests are not known any more: a request that is sent again after this makes another batch."""
    op.drop_index("ix_sandbox_batches_caller", "sandbox_batches")
