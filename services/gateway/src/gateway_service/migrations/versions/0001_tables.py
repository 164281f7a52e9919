"""The tables of this service.

It takes the place of all revisions before the first release, and has the name of the last of them, so that a database
at that revision goes on as it is. Each change of the tables after it is a file of its own.

Revision ID: 0014
"""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "0014"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "gateway_api_keys",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        sa.Column("hint", sa.String(16), nullable=False),
        sa.Column("scopes", sa.JSON, nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("revoke_time", UtcDateTime),
        sa.Column("models", sa.JSON, nullable=False),
        sa.Column("expire_time", UtcDateTime),
        sa.Column("actor", sa.String(40), nullable=False),
        sa.Column("revoke_actor", sa.String(40), nullable=False),
        sa.Column("keep_traffic", sa.Boolean, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("request_id", sa.String(200), nullable=False, unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
    )
    op.create_index("ix_gateway_api_keys_revision", "gateway_api_keys", ["revision"])
    op.create_table(
        "gateway_completions",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("start_time", UtcDateTime, nullable=False),
        sa.Column("model", sa.String(63), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("policy_id", sa.String(80), nullable=False),
        sa.Column("arm", sa.String(16), nullable=False),
        sa.Column("release_id", sa.String(40), nullable=False),
        sa.Column("stage", sa.Integer, nullable=False),
        sa.Column("latency_s", sa.Float, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("prompt_tokens", sa.Integer, nullable=False),
        sa.Column("completion_tokens", sa.Integer, nullable=False),
        sa.Column("texts", sa.JSON, nullable=False),
        sa.Column("has_texts", sa.Boolean, nullable=False),
        sa.Column("score", sa.Float),
        sa.Column("problem_set", sa.Text, nullable=False),
        sa.Column("problem_id", sa.Text, nullable=False),
        sa.Column("metrics", sa.JSON, nullable=False),
        sa.Column("experiment_id", sa.String(40), nullable=False),
        sa.Column("variant", sa.String(63), nullable=False),
        sa.Column("unit", sa.String(32), nullable=False),
        sa.Column("has_left", sa.Boolean, nullable=False),
        sa.Column("key_id", sa.String(40), nullable=False),
        sa.Column("user_unit", sa.String(32), nullable=False),
        sa.Column("session_unit", sa.String(32), nullable=False),
    )
    op.create_index("gateway_completions_by_experiment", "gateway_completions", ["experiment_id", "variant", "unit"])
    op.create_index("gateway_completions_by_release", "gateway_completions", ["release_id", "arm", "id"])
    op.create_index("gateway_completions_by_version", "gateway_completions", ["model", "version", "start_time"])
    op.create_index("gateway_completions_with_texts", "gateway_completions", ["has_texts", "start_time"])
    op.create_index("ix_gateway_completions_start_time", "gateway_completions", ["start_time"])
    op.create_table(
        "gateway_deliveries",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("webhook_id", sa.String(40), nullable=False),
        sa.Column("event_id", sa.String(80), nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("next_time", UtcDateTime, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("end_time", UtcDateTime),
        sa.UniqueConstraint("webhook_id", "event_id", name="gateway_deliveries_once"),
    )
    op.create_index("gateway_deliveries_by_webhook", "gateway_deliveries", ["webhook_id", "id"])
    op.create_index("gateway_deliveries_due", "gateway_deliveries", ["state", "next_time"])
    op.create_index("ix_gateway_deliveries_end_time", "gateway_deliveries", ["end_time"])
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
        sa.Column("key_id", sa.String(40), nullable=False),
        sa.Column("user_unit", sa.String(32), nullable=False),
        sa.Column("session_unit", sa.String(32), nullable=False),
        sa.Column("prompt_tokens", sa.Integer, nullable=False),
        sa.Column("completion_tokens", sa.Integer, nullable=False),
        sa.Column("material", sa.JSON, nullable=False),
        sa.Column("score", sa.Float),
        sa.Column("problem_set", sa.Text, nullable=False),
        sa.Column("problem_id", sa.Text, nullable=False),
        sa.Column("accepted", sa.JSON, nullable=False),
        sa.Column("choices", sa.JSON, nullable=False),
        sa.Column("is_accepted", sa.Boolean, nullable=False),
        sa.Column("is_compared", sa.Boolean, nullable=False),
    )
    op.create_index("ix_gateway_exchanges_key_id", "gateway_exchanges", ["key_id"])
    op.create_index("ix_gateway_exchanges_session_unit", "gateway_exchanges", ["session_unit"])
    op.create_index("ix_gateway_exchanges_start_time", "gateway_exchanges", ["start_time"])
    op.create_index("ix_gateway_exchanges_user_unit", "gateway_exchanges", ["user_unit"])
    op.create_table(
        "gateway_experiments",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("request_id", sa.String(200), nullable=False, unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("model", sa.String(63), nullable=False),
        sa.Column("active", sa.Boolean, nullable=False),
        sa.Column("start_time", UtcDateTime),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
    )
    op.create_index("gateway_experiments_by_model", "gateway_experiments", ["model", "id"])
    op.create_index("ix_gateway_experiments_active", "gateway_experiments", ["active"])
    op.create_table(
        "gateway_feedback",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("request_id", sa.String(200), nullable=False, unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("completion_id", sa.String(40), nullable=False),
        sa.Column("score", sa.Float, nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
    )
    op.create_index("ix_gateway_feedback_create_time", "gateway_feedback", ["create_time"])
    op.create_table(
        "gateway_forgotten",
        sa.Column("unit", sa.String(32), primary_key=True),
        sa.Column("forget_time", UtcDateTime, nullable=False),
        sa.Column("confirmed", sa.Boolean, nullable=False),
    )
    op.create_index("ix_gateway_forgotten_forget_time", "gateway_forgotten", ["forget_time"])
    op.create_table(
        "gateway_release_sums",
        sa.Column("release_id", sa.String(40), primary_key=True),
        sa.Column("arm", sa.String(16), primary_key=True),
        sa.Column("stage", sa.Integer, primary_key=True),
        sa.Column("unit", sa.String(32), primary_key=True),
        sa.Column("requests", sa.Integer, nullable=False),
        sa.Column("errors", sa.Integer, nullable=False),
        sa.Column("has_left", sa.Integer, nullable=False),
        sa.Column("scored", sa.Integer, nullable=False),
        sa.Column("score", sa.Float, nullable=False),
        sa.Column("score_squares", sa.Float, nullable=False),
        sa.Column("timed", sa.Integer, nullable=False),
        sa.Column("slow", sa.Integer, nullable=False),
        sa.Column("update_time", UtcDateTime, nullable=False),
    )
    op.create_index("ix_gateway_release_sums_update_time", "gateway_release_sums", ["update_time"])
    op.create_table(
        "gateway_releases",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("request_id", sa.String(200), nullable=False, unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("model", sa.String(63), nullable=False),
        sa.Column("active_model", sa.String(63), nullable=True, unique=True),
        sa.Column("unfinished", sa.Boolean, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
    )
    op.create_index("gateway_releases_by_model", "gateway_releases", ["model", "id"])
    op.create_index("ix_gateway_releases_unfinished", "gateway_releases", ["unfinished"])
    op.create_table(
        "gateway_replay_prompts",
        sa.Column("experiment_id", sa.String(40), primary_key=True),
        sa.Column("number", sa.Integer, autoincrement=False, primary_key=True),
        sa.Column("document", sa.JSON, nullable=False),
    )
    revisions = op.create_table(
        "gateway_revisions",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("revision", sa.Integer, nullable=False),
    )
    op.bulk_insert(revisions, [{"name": name, "revision": 1} for name in ("keys", "forgotten")])
    op.create_table(
        "gateway_webhooks",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("kinds", sa.JSON, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("actor", sa.String(40), nullable=False),
        sa.Column("request_id", sa.String(200), nullable=False, unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
    )
