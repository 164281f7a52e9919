"""The tables of this service.

It takes the place of all revisions before the first release, and has the name of the last of them, so that a database
at that revision goes on as it is. Each change of the tables after it is a file of its own.

Revision ID: eval_0011
"""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "eval_0011"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "eval_deleted_evaluations",
        sa.Column("evaluation_id", sa.String(64), primary_key=True),
        sa.Column("model_name", sa.String(200), nullable=False),
        sa.Column("policy_id", sa.String(80), nullable=False),
        sa.Column("start_time", UtcDateTime, nullable=False),
        sa.Column("setup", sa.String(64), nullable=False),
        sa.Column("total", sa.Integer, nullable=False),
    )
    op.create_table(
        "eval_evaluations",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("model", sa.JSON(none_as_null=True)),
        sa.Column("model_name", sa.String(200), nullable=False),
        sa.Column("set_names", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("failure", sa.JSON(none_as_null=True)),
        sa.Column("policy_id", sa.String(80), nullable=False),
        sa.Column("score", sa.JSON(none_as_null=True)),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("start_time", UtcDateTime),
        sa.Column("end_time", UtcDateTime),
        sa.Column("notices", sa.JSON, server_default="[]", nullable=False),
        sa.Column("added_samples", sa.Integer, server_default="0", nullable=False),
        sa.Column("added_time", UtcDateTime),
        sa.Column("references_tried", sa.Integer, server_default="0", nullable=False),
        sa.Column("references_total", sa.Integer, server_default="0", nullable=False),
        sa.Column("pace_time", UtcDateTime),
        sa.Column("pace_samples", sa.Integer),
        sa.Column("has_texts", sa.Boolean, server_default=sa.true(), nullable=False),
        sa.Column("held_by", sa.String(200), nullable=False),
        sa.Column("held_until", UtcDateTime),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("request_id", sa.String(200), nullable=False, unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
    )
    op.create_index("ix_eval_evaluations_model_name", "eval_evaluations", ["model_name"])
    op.create_index("ix_eval_evaluations_state", "eval_evaluations", ["state"])
    op.create_table(
        "eval_pairs",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("voter", sa.String(200), nullable=False),
        sa.Column("benchmark", sa.String(500), nullable=False),
        sa.Column("problem_id", sa.Text, nullable=False),
        sa.Column("prompt", sa.Text, nullable=False),
        sa.Column("left_id", sa.String(64), nullable=False),
        sa.Column("left_index", sa.Integer, nullable=False),
        sa.Column("left_text", sa.Text, nullable=False),
        sa.Column("right_id", sa.String(64), nullable=False),
        sa.Column("right_index", sa.Integer, nullable=False),
        sa.Column("right_text", sa.Text, nullable=False),
        sa.Column("choice", sa.String(16), nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("vote_time", UtcDateTime),
        sa.Column("request_id", sa.String(200), nullable=False, unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
    )
    op.create_index("ix_eval_pairs_left_id", "eval_pairs", ["left_id"])
    op.create_index("ix_eval_pairs_right_id", "eval_pairs", ["right_id"])
    op.create_table(
        "eval_sound_problems",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("shared", sa.JSON, nullable=False),
        sa.Column("cpu_seconds", sa.Float, nullable=False),
    )
    op.create_table(
        "eval_deleted_problems",
        sa.Column(
            "evaluation_id", sa.String(64), sa.ForeignKey("eval_deleted_evaluations.evaluation_id"), primary_key=True
        ),
        sa.Column("fingerprint", sa.String(64), primary_key=True),
        sa.Column("tests", sa.String(64), primary_key=True),
    )
    op.create_index("ix_eval_deleted_problems_fingerprint", "eval_deleted_problems", ["fingerprint"])
    op.create_index("ix_eval_deleted_problems_tests", "eval_deleted_problems", ["tests"])
    op.create_table(
        "eval_problems",
        sa.Column("evaluation_id", sa.String(64), sa.ForeignKey("eval_evaluations.id"), primary_key=True),
        sa.Column("benchmark", sa.String(500), primary_key=True),
        sa.Column("problem_id", sa.Text, primary_key=True),
        sa.Column("family", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("slices", sa.JSON, nullable=False),
        sa.Column("excluded", sa.Text, nullable=False),
        sa.Column("tests", sa.String(64), server_default="", nullable=False),
    )
    op.create_index("ix_eval_problems_fingerprint", "eval_problems", ["fingerprint"])
    op.create_index("ix_eval_problems_tests", "eval_problems", ["tests"])
    op.create_table(
        "eval_samples",
        sa.Column("evaluation_id", sa.String(64), sa.ForeignKey("eval_evaluations.id"), primary_key=True),
        sa.Column("benchmark", sa.String(500), primary_key=True),
        sa.Column("problem_id", sa.Text, primary_key=True),
        sa.Column("index", sa.Integer, autoincrement=False, primary_key=True),
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
    op.create_index(
        "ix_eval_samples_counts",
        "eval_samples",
        ["evaluation_id", "benchmark", "problem_id", "verdict", "failure", "forgeable"],
    )
    op.create_index("ix_eval_samples_request", "eval_samples", ["request"])
