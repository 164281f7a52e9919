"""The tables of gateway-service. Prefixed, since services may share a database."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from ratchet_kit.sql import UtcDateTime, hold_columns, request_columns

metadata = MetaData()

# The document holds the release, and the experiment below; the other columns find it.
releases = Table(
    "gateway_releases",
    metadata,
    Column("id", String(64), primary_key=True),
    *request_columns(),
    Column("model", String(63), nullable=False),
    # The model while the release is active, then NULL: so that a model has at most one.
    Column("active_model", String(63), nullable=True, unique=True),
    Column("unfinished", Boolean, nullable=False, index=True),
    Column("revision", Integer, nullable=False),
    Column("document", JSON, nullable=False),
    Index("gateway_releases_by_model", "model", "id"),
)

experiments = Table(
    "gateway_experiments",
    metadata,
    Column("id", String(64), primary_key=True),
    *request_columns(),
    Column("model", String(63), nullable=False),
    Column("active", Boolean, nullable=False, index=True),
    Column("start_time", UtcDateTime, nullable=True),
    Column("revision", Integer, nullable=False),
    Column("document", JSON, nullable=False),
    Index("gateway_experiments_by_model", "model", "id"),
)

# What an offline experiment has still to replay; dropped when it ends.
replay_prompts = Table(
    "gateway_replay_prompts",
    metadata,
    Column("experiment_id", String(64), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("document", JSON, nullable=False),
)

completions = Table(
    "gateway_completions",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("start_time", UtcDateTime, nullable=False, index=True),
    Column("model", String(63), nullable=False),
    Column("version", Integer, nullable=False),
    Column("policy_id", String(80), nullable=False),
    Column("arm", String(16), nullable=False),
    Column("release_id", String(64), nullable=False),
    Column("stage", Integer, nullable=False),
    Column("latency_s", Float, nullable=False),
    Column("error", Text, nullable=False),
    Column("prompt_tokens", Integer, nullable=False),
    Column("completion_tokens", Integer, nullable=False),
    # Until scored or too old.
    Column("texts", JSON, nullable=False),
    Column("has_texts", Boolean, nullable=False),
    Column("score", Float, nullable=True),
    Column("problem_set", Text, nullable=False),
    Column("problem_id", Text, nullable=False),
    # What feedback measured: a map of names and numbers.
    Column("metrics", JSON, nullable=False),
    Column("experiment_id", String(64), nullable=False),
    Column("variant", String(63), nullable=False),
    # A digest: see domain.traffic.record.unit_id.
    Column("unit", String(32), nullable=False),
    # The caller left before the end.
    Column("has_left", Boolean, nullable=False),
    # Who asked, so that their texts can be forgotten. The last two are digests, too.
    Column("key_id", String(64), nullable=False),
    Column("user_unit", String(32), nullable=False),
    Column("session_unit", String(32), nullable=False),
    Index("gateway_completions_by_experiment", "experiment_id", "variant", "unit"),
    Index("gateway_completions_by_release", "release_id", "arm", "id"),
    Index("gateway_completions_by_version", "model", "version", "start_time"),
    Index("gateway_completions_with_texts", "has_texts", "start_time"),
)

# What a release is judged by: written with each record and score, so that the requests are not counted again. A row is
# of a user; one with an empty unit is of all requests that name none, each of which is a unit.
release_sums = Table(
    "gateway_release_sums",
    metadata,
    Column("release_id", String(64), primary_key=True),
    Column("arm", String(16), primary_key=True),
    Column("stage", Integer, primary_key=True),
    Column("unit", String(32), primary_key=True),
    # Answered or failed; who left is not among them.
    Column("requests", Integer, nullable=False),
    Column("errors", Integer, nullable=False),
    Column("has_left", Integer, nullable=False),
    Column("scored", Integer, nullable=False),
    Column("score", Float, nullable=False),
    Column("score_squares", Float, nullable=False),
    # Of the answers whose latency was looked at, how many were slow.
    Column("timed", Integer, nullable=False),
    Column("slow", Integer, nullable=False),
    Column("update_time", UtcDateTime, nullable=False, index=True),
)

api_keys = Table(
    "gateway_api_keys",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", Text, nullable=False),
    Column("digest", String(64), nullable=False, unique=True),
    Column("hint", String(16), nullable=False),
    Column("scopes", JSON, nullable=False),
    Column("create_time", UtcDateTime, nullable=False),
    Column("revoke_time", UtcDateTime, nullable=True),
    Column("models", JSON, nullable=False),
    Column("expire_time", UtcDateTime, nullable=True),
    # Ids of keys.
    Column("actor", String(64), nullable=False),
    Column("revoke_actor", String(64), nullable=False),
    Column("keep_traffic", Boolean, nullable=False),
    Column("monthly_tokens", BigInteger, nullable=False, server_default="0"),
    # Of all keys, when this one was changed last.
    Column("revision", Integer, nullable=False, index=True),
    *request_columns(),
)

# Answers of versions to keys in a day ("2026-11-28"): written with the records, which are not kept for as long.
answer_days = Table(
    "gateway_answer_days",
    metadata,
    Column("day", String(10), primary_key=True),
    Column("key_id", String(64), primary_key=True),
    Column("model", String(63), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    # Empty of answers that had no price.
    Column("currency", String(16), primary_key=True),
    Column("answers", BigInteger, nullable=False),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
    Column("cost", Float, nullable=False),
)

# Who changed what. Its ids are by time.
audit = Table(
    "gateway_audit",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("create_time", UtcDateTime, nullable=False, index=True),
    Column("actor", String(64), nullable=False),
    Column("actor_name", Text, nullable=False),
    Column("method", String(100), nullable=False),
    Column("resource", Text, nullable=False),
    Column("code", String(32), nullable=False),
    Column("request_id", Text, nullable=False),
    Index("gateway_audit_by_actor", "actor", "id"),
)

# How often what is named has changed. Who changes it holds the row until the change is committed, so that revisions
# are seen in their order.
revisions = Table(
    "gateway_revisions",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("revision", Integer, nullable=False),
)

# What each request for feedback stored; the completion holds the last score.
feedback = Table(
    "gateway_feedback",
    metadata,
    Column("id", String(64), primary_key=True),
    *request_columns(),
    Column("completion_id", String(64), nullable=False),
    Column("score", Float, nullable=False),
    Column("create_time", UtcDateTime, nullable=False, index=True),
)

# What keys consent to keep. It outlives the completion.
exchanges = Table(
    "gateway_exchanges",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("start_time", UtcDateTime, nullable=False, index=True),
    Column("model", String(63), nullable=False),
    Column("version", Integer, nullable=False),
    Column("policy_id", String(80), nullable=False),
    Column("arm", String(16), nullable=False),
    Column("release_id", String(64), nullable=False),
    Column("experiment_id", String(64), nullable=False),
    Column("variant", String(63), nullable=False),
    Column("key_id", String(64), nullable=False, index=True),
    Column("user_unit", String(32), nullable=False, index=True),
    Column("session_unit", String(32), nullable=False, index=True),
    Column("prompt_tokens", Integer, nullable=False),
    Column("completion_tokens", Integer, nullable=False),
    Column("latency_s", Float, nullable=False),
    # Redacted.
    Column("material", JSON, nullable=False),
    Column("score", Float, nullable=True),
    Column("problem_set", Text, nullable=False),
    Column("problem_id", Text, nullable=False),
    # A text and the answer's index, redacted, too; and the choices.
    Column("accepted", JSON, nullable=False),
    Column("choices", JSON, nullable=False),
    Column("is_accepted", Boolean, nullable=False),
    # It has a choice, or the accepted text is not the answer.
    Column("is_compared", Boolean, nullable=False),
)

# Whose texts were removed, and when: what other gateways still have to write of earlier times has no texts. A digest.
forgotten = Table(
    "gateway_forgotten",
    metadata,
    Column("unit", String(32), primary_key=True),
    Column("forget_time", UtcDateTime, nullable=False, index=True),
    # The registry knows it, and its data sets hold nothing of it.
    Column("confirmed", Boolean, nullable=False),
)

webhooks = Table(
    "gateway_webhooks",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("url", Text, nullable=False),
    Column("secret", Text, nullable=False),
    Column("create_time", UtcDateTime, nullable=False),
    Column("kinds", JSON, nullable=False),
    Column("description", Text, nullable=False),
    Column("paused", Boolean, nullable=False),
    # Id of a key.
    Column("actor", String(64), nullable=False),
    *request_columns(),
)

deliveries = Table(
    "gateway_deliveries",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("webhook_id", String(64), nullable=False),
    Column("event_id", String(80), nullable=False),
    Column("kind", String(40), nullable=False),
    Column("body", Text, nullable=False),
    Column("create_time", UtcDateTime, nullable=False),
    Column("next_time", UtcDateTime, nullable=False),
    Column("state", String(16), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("status", Integer, nullable=False),
    Column("error", Text, nullable=False),
    Column("end_time", UtcDateTime, nullable=True, index=True),
    UniqueConstraint("webhook_id", "event_id", name="gateway_deliveries_once"),
    Index("gateway_deliveries_by_webhook", "webhook_id", "id"),
    Index("gateway_deliveries_due", "state", "next_time"),
)

workflows = Table(
    "gateway_workflows",
    metadata,
    Column("id", String(64), primary_key=True),
    *request_columns(),
    *hold_columns(),
    Column("kind", String(16), nullable=False),
    Column("name", Text, nullable=False),
    Column("text", Text, nullable=False),
    # Id of a key.
    Column("actor", String(64), nullable=False),
    Column("model", String(63), nullable=False, index=True),
    Column("number", Integer, nullable=False),
    Column("schedule_id", String(64), nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("sentence", Text, nullable=False),
    Column("create_time", UtcDateTime, nullable=False),
    Column("start_time", UtcDateTime, nullable=True),
    Column("end_time", UtcDateTime, nullable=True),
    Column("record", JSON, nullable=False),
)

workflow_lines = Table(
    "gateway_workflow_lines",
    metadata,
    Column("workflow_id", String(64), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("create_time", UtcDateTime, nullable=False),
    Column("text", Text, nullable=False),
)

schedules = Table(
    "gateway_schedules",
    metadata,
    Column("id", String(64), primary_key=True),
    *request_columns(),
    Column("kind", String(16), nullable=False),
    Column("name", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("cron", Text, nullable=False),
    # Of a period; NULL without one.
    Column("seconds", BigInteger, nullable=True),
    Column("when_feedback", Integer, nullable=False),
    Column("actor", String(64), nullable=False),
    Column("model", String(63), nullable=False),
    Column("create_time", UtcDateTime, nullable=False),
    Column("next_time", UtcDateTime, nullable=False, index=True),
    Column("workflow_id", String(64), nullable=False),
    Column("fault", Text, nullable=False),
)
