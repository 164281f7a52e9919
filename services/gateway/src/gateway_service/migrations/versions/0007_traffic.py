"""Exchanges that keys consent to keep, whose texts were forgotten, and who sent a request."""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

WHO = {"key_id": 40, "user_unit": 32, "session_unit": 32}


def upgrade() -> None:
    op.create_table(
        "gateway_exchanges",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("start_time", UtcDateTime, nullable=False),
        sa.Column("model", sa.String(63), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("policy_id", sa.String(80), nullable=False),
        sa.Column("arm", sa.String(16), nullable=False),
        sa.Column("release_id", sa.String(40), nullable=False),
        sa.Column("experiment_id", sa.String(40), nullable=False),
        sa.Column("variant", sa.String(63), nullable=False),
        *(sa.Column(name, sa.String(length), nullable=False) for name, length in WHO.items()),
        sa.Column("prompt_tokens", sa.Integer, nullable=False),
        sa.Column("completion_tokens", sa.Integer, nullable=False),
        sa.Column("material", sa.JSON, nullable=False),
        sa.Column("score", sa.Float, nullable=True),
        sa.Column("problem_set", sa.Text, nullable=False),
        sa.Column("problem_id", sa.Text, nullable=False),
        sa.Column("accepted", sa.JSON, nullable=False),
        sa.Column("choices", sa.JSON, nullable=False),
        sa.Column("is_accepted", sa.Boolean, nullable=False),
        sa.Column("is_compared", sa.Boolean, nullable=False),
    )
    for name in ("start_time", *WHO):
        op.create_index(f"ix_gateway_exchanges_{name}", "gateway_exchanges", [name])
    op.create_table(
        "gateway_forgotten",
        sa.Column("unit", sa.String(32), primary_key=True),
        sa.Column("forget_time", UtcDateTime, nullable=False),
    )
    op.create_index("ix_gateway_forgotten_forget_time", "gateway_forgotten", ["forget_time"])
    op.execute("INSERT INTO gateway_revisions (name, revision) VALUES ('forgotten', 1)")
    op.add_column("gateway_api_keys", sa.Column("keep_traffic", sa.Boolean, nullable=False, server_default=sa.false()))
    for name, length in WHO.items():
        op.add_column("gateway_completions", sa.Column(name, sa.String(length), nullable=False, server_default=""))


def downgrade() -> None:
    for name in WHO:
        op.drop_column("gateway_completions", name)
    op.drop_column("gateway_api_keys", "keep_traffic")
    op.execute("DELETE FROM gateway_revisions WHERE name = 'forgotten'")
    op.drop_table("gateway_forgotten")
    op.drop_table("gateway_exchanges")
