"""Suites: a sample is of a set, may wait for its judgement, and says what it took; problems have facts of their own.

Revision ID: eval_0004
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "eval_0004"
down_revision = "eval_0003"
branch_labels = None
depends_on = None

_FAILURES = {
    "PASSED": "",
    "FAILED": "WRONG",
    "TIME_LIMIT": "TIMEOUT",
    "MEMORY_LIMIT": "MEMORY",
    "TAMPERED": "TAMPERED",
}


def upgrade() -> None:
    # Without Alembic's batches: see the second revision.
    for column in (
        sa.Column("model_name", sa.String(200), nullable=False, server_default=""),
        sa.Column("set_names", sa.Text, nullable=False, server_default=""),
        sa.Column("score", sa.JSON),
        sa.Column("pace_time", UtcDateTime),
        sa.Column("pace_samples", sa.Integer),
    ):
        op.add_column("eval_evaluations", column)
    _move_specs()
    for name in ("samples_per_problem", "problems_total", "pass_at_k"):  # read from the spec, the facts, the score
        op.drop_column("eval_evaluations", name)
    op.create_index("ix_eval_evaluations_model_name", "eval_evaluations", ["model_name"])
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE eval_evaluations ALTER COLUMN model DROP NOT NULL")
    else:
        # SQLite cannot drop NOT NULL: a column of the same name without it.
        op.execute("ALTER TABLE eval_evaluations RENAME COLUMN model TO model_before")
        op.add_column("eval_evaluations", sa.Column("model", sa.JSON))
        op.execute("UPDATE eval_evaluations SET model = model_before")
        op.drop_column("eval_evaluations", "model_before")
    op.create_table(
        "eval_problems",
        sa.Column("evaluation_id", sa.String(64), sa.ForeignKey("eval_evaluations.id"), primary_key=True),
        sa.Column("benchmark", sa.String(500), primary_key=True),
        sa.Column("problem_id", sa.Text, primary_key=True),
        sa.Column("family", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("slices", sa.JSON, nullable=False),
        sa.Column("excluded", sa.Text, nullable=False),
    )
    op.create_table("eval_sound_problems", sa.Column("digest", sa.String(64), primary_key=True))
    _move_samples()


def _move_specs() -> None:
    table = sa.table(
        "eval_evaluations", sa.column("id"), sa.column("spec", sa.JSON), sa.column("model_name"), sa.column("set_names")
    )
    connection = op.get_bind()
    for id, spec in connection.execute(sa.select(table.c.id, table.c.spec)).all():
        problems = spec.pop("problems")
        spec["suite"] = [{"problems": problems, "weight": 1.0, "version": ""}]
        values = {"spec": spec, "model_name": _model_name(spec["model"]), "set_names": f"|{problems['name']}|"}
        connection.execute(table.update().where(table.c.id == id).values(values))


def _model_name(model: dict[str, Any]) -> str:
    text: str = model["text"]
    return "" if model["kind"] == "uri" else text.partition("@")[0].partition(":")[0]


def _move_samples() -> None:
    """Into a table whose key has the set."""
    op.rename_table("eval_samples", "eval_samples_before")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER INDEX eval_samples_pkey RENAME TO eval_samples_before_pkey")
    op.create_table(
        "eval_samples",
        sa.Column("evaluation_id", sa.String(64), sa.ForeignKey("eval_evaluations.id"), primary_key=True),
        sa.Column("benchmark", sa.String(500), primary_key=True),
        sa.Column("problem_id", sa.Text, primary_key=True),
        sa.Column("index", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("completion", sa.Text, nullable=False),
        sa.Column("policy_id", sa.String(80), nullable=False),
        sa.Column("is_program", sa.Boolean, nullable=False),
        sa.Column("request", sa.String(64)),
        sa.Column("tokens", sa.Integer, nullable=False),
        sa.Column("truncated", sa.Boolean, nullable=False),
        sa.Column("generation_seconds", sa.Float),
        sa.Column("verdict", sa.String(32), nullable=False),
        sa.Column("tests_passed", sa.Integer, nullable=False),
        sa.Column("tests_total", sa.Integer, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("forgeable", sa.Boolean, nullable=False),
        sa.Column("failure", sa.String(16), nullable=False),
        sa.Column("cpu_seconds", sa.Float),
    )
    failure = " ".join(f"WHEN '{verdict}' THEN '{name}'" for verdict, name in _FAILURES.items())
    op.execute(
        f"""
        INSERT INTO eval_samples (evaluation_id, benchmark, problem_id, "index", completion, policy_id, is_program,
            request, tokens, truncated, generation_seconds, verdict, tests_passed, tests_total, detail, forgeable,
            failure, cpu_seconds)
        SELECT evaluation_id, substr(set_names, 2, length(set_names) - 2), problem_id, "index", completion,
            s.policy_id, false, NULL, 0, false, NULL, verdict, tests_passed, tests_total, detail, forgeable,
            CASE verdict {failure} ELSE 'CRASH' END, NULL
        FROM eval_samples_before s JOIN eval_evaluations e ON e.id = s.evaluation_id
        """
    )
    op.drop_table("eval_samples_before")
    counted = ["evaluation_id", "benchmark", "problem_id", "verdict", "failure", "forgeable"]
    op.create_index("ix_eval_samples_counts", "eval_samples", counted)
    op.create_index("ix_eval_samples_request", "eval_samples", ["request"])


def downgrade() -> None:
    raise NotImplementedError("there is no way back: the code before this revision cannot read what comes after it")
