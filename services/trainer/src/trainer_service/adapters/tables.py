"""The tables of trainer-service. Prefixed, since services may share a database."""

from sqlalchemy import BigInteger, Boolean, Column, Float, ForeignKey, Index, Integer, MetaData, String, Table, Text

from ratchet_kit.sql import UtcDateTime, request_columns

metadata = MetaData()

# Ids sort by the time they were made. Specs and metrics are JSON in text: a metric may be NaN, which JSON columns of
# PostgreSQL refuse.
runs = Table(
    "trainer_runs",
    metadata,
    Column("id", String(64), primary_key=True),
    *request_columns(),
    Column("spec", Text, nullable=False),
    # The spec's names once more, for lists of those of one name or model.
    Column("display_name", Text, nullable=False),
    Column("base_model", String(63), nullable=False),
    Column("output_model", String(63), nullable=False),
    Column("state", String(20), nullable=False),
    Column("failure_code", String(40)),
    Column("failure_message", Text, nullable=False),
    Column("step", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("platform_faults", BigInteger, nullable=False),
    Column("version", String(200), nullable=False),
    Column("best_step", Integer),
    Column("create_time", UtcDateTime, nullable=False, index=True),
    Column("update_time", UtcDateTime, nullable=False),
    Column("start_time", UtcDateTime),
    Column("trained_time", UtcDateTime),
    Column("end_time", UtcDateTime),
    Column("phase", String(20)),
    Column("phase_time", UtcDateTime),
    Column("actor", String(64), nullable=False),
    Column("cancel_actor", String(64), nullable=False),
    Column("fruitful_attempt", Integer, nullable=False),
    Column("estimate", Text, nullable=False),
    Column("out_of_memory", Integer, nullable=False),
    Column("notices", Text, nullable=False),
    Column("place", String(200), nullable=False),
    Column("heartbeat_time", UtcDateTime),
    Column("resumes", Integer, nullable=False),
    Column("resume_actor", String(64), nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("tracks", Text, nullable=False),
    Column("is_tracked", Boolean, nullable=False, index=True),  # a tracker has not had all of it
    Column("preempted_by", String(64), nullable=False),
    Column("preemptions", Integer, nullable=False),
    Column("drawn", Text, nullable=False),
    Column("drawn_step", Integer, nullable=False),
    Column("usages", Text, nullable=False, server_default="[]"),
    Column("waits_for", Text, nullable=False, server_default=""),
    Column("nodes", Integer, nullable=False, server_default="0"),
    Index("ix_trainer_runs_state", "state", "id"),
    Index("ix_trainer_runs_base_model", "base_model", "id"),
    Index("ix_trainer_runs_output_model", "output_model", "id"),
)

steps = Table(
    "trainer_steps",
    metadata,
    Column("run_id", ForeignKey(runs.c.id, ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("metrics", Text, nullable=False),
    Column("policy_id", String(80), nullable=False),
    Column("create_time", UtcDateTime, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("platform_faults", BigInteger, nullable=False),
)

checkpoints = Table(
    "trainer_checkpoints",
    metadata,
    Column("run_id", ForeignKey(runs.c.id, ondelete="CASCADE"), primary_key=True),
    Column("step", Integer, primary_key=True),
    Column("uri", Text, nullable=False),
    Column("policy_id", String(80), nullable=False),
    Column("validation_score", Float),
    Column("validation_low", Float),
    Column("validation_high", Float),
    Column("create_time", UtcDateTime, nullable=False),
    Column("evaluation_id", String(64), nullable=False, server_default=""),
    Column("unscored", Text, nullable=False, server_default=""),
)
