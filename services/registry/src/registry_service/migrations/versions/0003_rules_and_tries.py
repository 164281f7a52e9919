"""Gates have rules, guards and a number among the tries on their problems; training sets are known by fingerprints.

Revision ID: registry_0003
"""

import sqlalchemy as sa
from alembic import op

revision = "registry_0003"
down_revision = "registry_0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name, empty in (("rules", "{}"), ("guards", "[]"), ("digests", "[]")):
        op.add_column("registry_gates", sa.Column(name, sa.JSON, nullable=False, server_default=empty))
    op.add_column("registry_gates", sa.Column("tries", sa.Integer, nullable=False, server_default="0"))
    op.create_table(
        "registry_training_sets",
        sa.Column("digest", sa.String(80), primary_key=True),
        sa.Column("fingerprints", sa.JSON, nullable=False),
    )
