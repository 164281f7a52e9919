"""The tables of eval-service. Prefixed, since services may share a database."""

from sqlalchemy import JSON, Boolean, Column, ForeignKey, Integer, MetaData, String, Table, Text

from ratchet_kit.sql import UtcDateTime, hold_columns, request_columns

metadata = MetaData()

evaluations = Table(
    "eval_evaluations",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("spec", JSON, nullable=False),
    Column("samples_per_problem", Integer, nullable=False),
    Column("model", JSON, nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("failure", JSON(none_as_null=True)),
    Column("policy_id", String(80), nullable=False),
    Column("problems_total", Integer, nullable=False),
    Column("pass_at_k", JSON, nullable=False),
    Column("create_time", UtcDateTime, nullable=False),
    Column("start_time", UtcDateTime),
    Column("end_time", UtcDateTime),
    *hold_columns(),
    *request_columns(),
)

# A row is written once, when the sample was judged, and never changed: this is where a resumed evaluation goes on from.
samples = Table(
    "eval_samples",
    metadata,
    Column("evaluation_id", ForeignKey(evaluations.c.id), primary_key=True),
    Column("problem_id", Text, primary_key=True),
    Column("index", Integer, primary_key=True, autoincrement=False),
    Column("completion", Text, nullable=False),
    Column("verdict", String(32), nullable=False),
    Column("tests_passed", Integer, nullable=False),
    Column("tests_total", Integer, nullable=False),
    Column("policy_id", String(80), nullable=False),
    Column("detail", Text, nullable=False),
    Column("forgeable", Boolean, nullable=False),
)
