"""Workflows and schedules.

Revision ID: gateway_0017
"""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime, hold_columns, request_columns

revision = "gateway_0017"
down_revision = "gateway_0016"


def upgrade() -> None:
    op.create_table(
        "gateway_workflows",
        sa.Column("id", sa.String(40), primary_key=True),
        *request_columns(),
        *hold_columns(),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("actor", sa.String(40), nullable=False),
        sa.Column("model", sa.String(63), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("schedule_id", sa.String(40), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("sentence", sa.Text, nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("start_time", UtcDateTime, nullable=True),
        sa.Column("end_time", UtcDateTime, nullable=True),
        sa.Column("record", sa.JSON, nullable=False),
    )
    op.create_index("ix_gateway_workflows_model", "gateway_workflows", ["model"])
    op.create_index("ix_gateway_workflows_state", "gateway_workflows", ["state"])
    op.create_table(
        "gateway_workflow_lines",
        sa.Column("workflow_id", sa.String(40), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
    )
    op.create_table(
        "gateway_schedules",
        sa.Column("id", sa.String(40), primary_key=True),
        *request_columns(),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("cron", sa.Text, nullable=False),
        sa.Column("seconds", sa.BigInteger, nullable=True),
        sa.Column("when_feedback", sa.Integer, nullable=False),
        sa.Column("actor", sa.String(40), nullable=False),
        sa.Column("model", sa.String(63), nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("next_time", UtcDateTime, nullable=False),
        sa.Column("workflow_id", sa.String(40), nullable=False),
        sa.Column("fault", sa.Text, nullable=False),
    )
    op.create_index("ix_gateway_schedules_next_time", "gateway_schedules", ["next_time"])
