"""Answers by day, key and version, with their cost, in place of tokens by month and key.

Revision ID: gateway_0018
"""

import sqlalchemy as sa
from alembic import op

revision = "gateway_0018"
down_revision = "gateway_0017"


def upgrade() -> None:
    op.create_table(
        "gateway_answer_days",
        sa.Column("day", sa.String(10), primary_key=True),
        sa.Column("key_id", sa.String(40), primary_key=True),
        sa.Column("model", sa.String(63), primary_key=True),
        sa.Column("version", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("currency", sa.String(16), primary_key=True),
        sa.Column("answers", sa.BigInteger(), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=False),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.Float(), nullable=False),
    )
    # A key that has used its month up stays so.
    op.execute(
        "INSERT INTO gateway_answer_days "
        "SELECT month || '-01', key_id, '', 0, '', 0, tokens, 0, 0.0 FROM gateway_key_months"
    )
    op.drop_table("gateway_key_months")
