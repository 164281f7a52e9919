"""The tables of eval-service. Prefixed, since services may share a database."""

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    true,
)

from ratchet_kit.sql import UtcDateTime, hold_columns, request_columns

metadata = MetaData()

evaluations = Table(
    "eval_evaluations",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("spec", JSON, nullable=False),
    Column("model", JSON(none_as_null=True)),
    # The spec's model and sets once more, for lists of those of one model or set: "|humaneval|mbpp|".
    Column("model_name", String(200), nullable=False),
    Column("set_names", Text, nullable=False),
    Column("state", String(16), nullable=False),
    Column("failure", JSON(none_as_null=True)),
    Column("policy_id", String(80), nullable=False),
    Column("score", JSON(none_as_null=True)),
    Column("create_time", UtcDateTime, nullable=False, index=True),
    Column("start_time", UtcDateTime),
    Column("end_time", UtcDateTime),
    Column("notices", JSON, nullable=False, server_default="[]"),
    # Of those that the caller adds, and when the last ones came.
    Column("added_samples", Integer, nullable=False, server_default="0"),
    Column("added_time", UtcDateTime),
    Column("references_tried", Integer, nullable=False, server_default="0"),
    Column("references_total", Integer, nullable=False, server_default="0"),
    Column("pace_time", UtcDateTime),
    Column("pace_samples", Integer),
    Column("usage", Text, nullable=False, server_default="{}"),
    Column("forecast", Text, nullable=False, server_default="null"),
    Column("actor", String(64), nullable=False, server_default=""),
    # That its samples have not lost their texts yet.
    Column("has_texts", Boolean, nullable=False, server_default=true()),
    *hold_columns(),
    *request_columns(),
    Index("ix_eval_evaluations_model_name", "model_name", "id"),
    Index("ix_eval_evaluations_state", "state", "id"),
)

problems = Table(
    "eval_problems",
    metadata,
    Column("evaluation_id", ForeignKey(evaluations.c.id), primary_key=True),
    Column("benchmark", String(500), primary_key=True),
    Column("problem_id", Text, primary_key=True),
    Column("family", Text, nullable=False),
    Column("fingerprint", String(64), nullable=False, index=True),
    Column("slices", JSON, nullable=False),
    Column("excluded", Text, nullable=False),
    # A fingerprint of the tests; empty where it was stored before there was one.
    Column("tests", String(64), nullable=False, server_default="", index=True),
)

# What deleted evaluations measured: deleting one does not make what was looked at unseen.
deleted_evaluations = Table(
    "eval_deleted_evaluations",
    metadata,
    Column("evaluation_id", String(64), primary_key=True),
    Column("model_name", String(200), nullable=False),
    Column("policy_id", String(80), nullable=False),
    Column("start_time", UtcDateTime, nullable=False),
    Column("setup", String(64), nullable=False),
    Column("total", Integer, nullable=False),
)

deleted_problems = Table(
    "eval_deleted_problems",
    metadata,
    Column("evaluation_id", ForeignKey(deleted_evaluations.c.evaluation_id), primary_key=True),
    Column("fingerprint", String(64), primary_key=True, index=True),
    Column("tests", String(64), primary_key=True, index=True),
)

# A row is written when the sample was drawn or added, and once more when it was judged: this is where a resumed
# evaluation goes on from.
samples = Table(
    "eval_samples",
    metadata,
    Column("evaluation_id", ForeignKey(evaluations.c.id), primary_key=True),
    Column("benchmark", String(500), primary_key=True),
    Column("problem_id", Text, primary_key=True),
    Column("index", Integer, primary_key=True, autoincrement=False),
    Column("completion", Text, nullable=False),
    Column("policy_id", String(80), nullable=False),
    Column("is_program", Boolean, nullable=False),
    Column("request", String(64)),
    Column("tokens", Integer, nullable=False),
    Column("truncated", Boolean, nullable=False),
    Column("generation_seconds", Float),
    # Empty until it was judged, and so that an index may hold it.
    Column("verdict", String(32), nullable=False),
    Column("tests_passed", Integer, nullable=False),
    Column("tests_total", Integer, nullable=False),
    Column("detail", Text, nullable=False),
    Column("forgeable", Boolean, nullable=False),
    Column("failure", String(16), nullable=False),
    Column("cpu_seconds", Float),
    # The tests that failed as people are shown them, and how many held-out ones did.
    Column("failed_tests", JSON, nullable=False, server_default="[]"),
    Column("held_out_failed", Integer, nullable=False, server_default="0"),
    Column("turns", Integer, nullable=False, server_default="0"),
    Column("tool_errors", Integer, nullable=False, server_default="0"),
    # Of an episode, packed and bounded (ratchet_episodes.record): written with the row, read by itself, and the last
    # column, so that no other waits for it.
    Column("record", LargeBinary),
    # What progress and scores are counted from, without a look at the rows.
    Index("ix_eval_samples_counts", "evaluation_id", "benchmark", "problem_id", "verdict", "failure", "forgeable"),
    Index("ix_eval_samples_request", "request"),
)

# Problems whose reference passed: they need not be tried again. `shared`: the places of the tests that must share the
# program's process. `cpu_seconds`: of the reference with all tests; 0 where it was tried before that was kept.
sound_problems = Table(
    "eval_sound_problems",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("shared", JSON, nullable=False),
    Column("cpu_seconds", Float, nullable=False),
)

# What people chose between. With the texts: a vote outlives the evaluations.
pairs = Table(
    "eval_pairs",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("voter", String(200), nullable=False),
    Column("benchmark", String(500), nullable=False),
    Column("problem_id", Text, nullable=False),
    Column("prompt", Text, nullable=False),
    Column("left_id", String(64), nullable=False, index=True),
    Column("left_index", Integer, nullable=False),
    Column("left_text", Text, nullable=False),
    Column("right_id", String(64), nullable=False, index=True),
    Column("right_index", Integer, nullable=False),
    Column("right_text", Text, nullable=False),
    # Empty until there is a vote.
    Column("choice", String(16), nullable=False),
    Column("create_time", UtcDateTime, nullable=False),
    Column("vote_time", UtcDateTime),
    *request_columns(),
)
