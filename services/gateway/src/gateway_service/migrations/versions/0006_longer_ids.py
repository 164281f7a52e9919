"""Room in ids for names of projects of 20 letters.

Revision ID: gateway_0019
"""

import sqlalchemy as sa
from alembic import op

revision = "gateway_0019"
down_revision = "gateway_0018"

COLUMNS = {
    "gateway_releases": ("id",),
    "gateway_experiments": ("id",),
    "gateway_replay_prompts": ("experiment_id",),
    "gateway_completions": ("id", "release_id", "experiment_id", "key_id"),
    "gateway_release_sums": ("release_id",),
    "gateway_api_keys": ("id", "actor", "revoke_actor"),
    "gateway_answer_days": ("key_id",),
    "gateway_audit": ("id", "actor"),
    "gateway_revisions": ("name",),
    "gateway_feedback": ("id", "completion_id"),
    "gateway_exchanges": ("id", "release_id", "experiment_id", "key_id"),
    "gateway_webhooks": ("id", "actor"),
    "gateway_deliveries": ("id", "webhook_id"),
    "gateway_workflows": ("id", "actor", "schedule_id"),
    "gateway_workflow_lines": ("workflow_id",),
    "gateway_schedules": ("id", "actor", "workflow_id"),
}


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        return  # its texts have no bound
    for table, columns in COLUMNS.items():
        for column in columns:
            op.alter_column(table, column, type_=sa.String(64))
