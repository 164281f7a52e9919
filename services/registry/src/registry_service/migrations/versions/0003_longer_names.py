"""Room in names of rewards for projects of 20 letters.

Revision ID: registry_0012
"""

import sqlalchemy as sa
from alembic import op

revision = "registry_0012"
down_revision = "registry_0011"

TABLES = ("registry_reward_names", "registry_rewards", "registry_reward_uses")


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        return  # its texts have no bound
    for table in TABLES:
        op.alter_column(table, "name", type_=sa.String(63))
