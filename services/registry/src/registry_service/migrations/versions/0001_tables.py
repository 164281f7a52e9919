"""The tables of this service.

It takes the place of all revisions before the first release, and has the name of the last of them, so that a database
at that revision goes on as it is. Each change of the tables after it is a file of its own.

Revision ID: registry_0010
"""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "registry_0010"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "registry_dataset_decisions",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("split", sa.String(400), nullable=False),
        sa.Column("problem", sa.String(400), nullable=False),
        sa.Column("other_set", sa.String(400), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("actor", sa.String(64), nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
    )
    op.create_table(
        "registry_dataset_names",
        sa.Column("name", sa.String(63), primary_key=True),
        sa.Column("latest_number", sa.Integer, nullable=False),
    )
    op.create_table(
        "registry_dataset_units",
        sa.Column("unit", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(63), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("time", UtcDateTime, nullable=False),
    )
    op.create_table(
        "registry_forgotten",
        sa.Column("unit", sa.String(64), primary_key=True),
        sa.Column("forget_time", UtcDateTime, nullable=False),
    )
    op.create_table(
        "registry_models",
        sa.Column("name", sa.String(63), primary_key=True),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("latest_version", sa.Integer, nullable=False),
        sa.Column("request_id", sa.String(200), nullable=True, unique=True),
        sa.Column("fingerprint", sa.String(64)),
    )
    op.create_table(
        "registry_reward_names",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("latest_number", sa.Integer, nullable=False),
    )
    op.create_table(
        "registry_training_sets",
        sa.Column("digest", sa.String(80), primary_key=True),
        sa.Column("fingerprints", sa.JSON, nullable=False),
    )
    op.create_table(
        "registry_uploads",
        sa.Column("key", sa.String(200), primary_key=True),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("abandoned", sa.Boolean, nullable=False),
    )
    op.create_table(
        "registry_alias_changes",
        sa.Column("position", sa.Integer, autoincrement=True, primary_key=True),
        sa.Column("model", sa.String(63), sa.ForeignKey("registry_models.name"), nullable=False),
        sa.Column("alias", sa.String(63), nullable=False),
        sa.Column("from_number", sa.Integer, nullable=False),
        sa.Column("to_number", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("gate_id", sa.String(64), nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("actor", sa.String(64), nullable=False),
        sa.Column("takes_back", sa.Boolean, server_default=sa.false(), nullable=False),
    )
    op.create_index("registry_alias_changes_by_alias", "registry_alias_changes", ["model", "alias", "position"])
    op.create_table(
        "registry_dataset_findings",
        sa.Column("name", sa.String(63), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("place", sa.Integer, primary_key=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("split", sa.String(40), nullable=False),
        sa.Column("digest", sa.String(80), nullable=False),
        sa.Column("problem", sa.Text, nullable=False),
        sa.Column("other_set", sa.Text, nullable=False),
        sa.Column("other_digest", sa.String(80), nullable=False),
        sa.Column("other", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("decision_id", sa.String(64), sa.ForeignKey("registry_dataset_decisions.id")),
    )
    op.create_index("ix_registry_dataset_findings_digest", "registry_dataset_findings", ["digest", "decision_id"])
    op.create_index("ix_registry_dataset_findings_problem", "registry_dataset_findings", ["name", "number", "problem"])
    op.create_table(
        "registry_datasets",
        sa.Column("name", sa.String(63), sa.ForeignKey("registry_dataset_names.name"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("card", sa.JSON, nullable=False),
        sa.Column("splits", sa.JSON, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("actor", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("failure_code", sa.String(32)),
        sa.Column("failure_message", sa.Text),
        sa.Column("end_time", UtcDateTime),
        sa.Column("uses", sa.Integer, nullable=False),
        sa.Column("last_user", sa.String(64), nullable=False),
        sa.Column("held_by", sa.String(200), nullable=False),
        sa.Column("held_until", UtcDateTime),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("request_id", sa.String(200), nullable=False, unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
    )
    op.create_index("ix_registry_datasets_digest", "registry_datasets", ["digest"])
    op.create_table(
        "registry_gates",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("model", sa.String(63), sa.ForeignKey("registry_models.name"), nullable=False),
        sa.Column("candidate_number", sa.Integer, nullable=False),
        sa.Column("champion_number", sa.Integer, nullable=False),
        sa.Column("candidate_evaluation_id", sa.String(200), nullable=False),
        sa.Column("champion_evaluation_id", sa.String(200), nullable=False),
        sa.Column("min_difference", sa.Float, nullable=False),
        sa.Column("rules", sa.JSON, nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("comparison", sa.JSON(none_as_null=True)),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("guards", sa.JSON, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("failure_code", sa.String(32)),
        sa.Column("failure_message", sa.Text),
        sa.Column("end_time", UtcDateTime),
        sa.Column("held_by", sa.String(200), nullable=False),
        sa.Column("held_until", UtcDateTime),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("request_id", sa.String(200), nullable=False, unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
    )
    op.create_index("ix_registry_gates_model", "registry_gates", ["model"])
    op.create_table(
        "registry_rewards",
        sa.Column("name", sa.String(40), sa.ForeignKey("registry_reward_names.name"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("digest", sa.String(80), nullable=False),
        sa.Column("size_bytes", sa.Integer, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("actor", sa.String(64), nullable=False),
        sa.Column("runs", sa.Integer, nullable=False),
        sa.Column("last_run_id", sa.String(64), nullable=False),
        sa.Column("request_id", sa.String(200), nullable=False, unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.UniqueConstraint("name", "digest"),
    )
    op.create_table(
        "registry_versions",
        sa.Column("model", sa.String(63), sa.ForeignKey("registry_models.name"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("source_uri", sa.Text, nullable=False),
        sa.Column("lineage", sa.JSON, nullable=False),
        sa.Column("labels", sa.JSON, nullable=False),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("artifact_uri", sa.Text, nullable=False),
        sa.Column("artifact_sha256", sa.String(64), nullable=False),
        sa.Column("policy_id", sa.String(80), nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("settings_id", sa.String(80), nullable=False),
        sa.Column("failure_code", sa.String(32)),
        sa.Column("failure_message", sa.Text),
        sa.Column("end_time", UtcDateTime),
        sa.Column("held_by", sa.String(200), nullable=False),
        sa.Column("held_until", UtcDateTime),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("request_id", sa.String(200), nullable=False, unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
    )
    op.create_index("ix_registry_versions_policy_id", "registry_versions", ["policy_id"])
    op.create_table(
        "registry_aliases",
        sa.Column("model", sa.String(63), primary_key=True),
        sa.Column("alias", sa.String(63), primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.ForeignKeyConstraint(
            ["model", "version"],
            ["registry_versions.model", "registry_versions.number"],
        ),
    )
    op.create_table(
        "registry_dataset_uses",
        sa.Column("name", sa.String(63), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("user", sa.String(64), primary_key=True),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.ForeignKeyConstraint(
            ["name", "number"],
            ["registry_datasets.name", "registry_datasets.number"],
        ),
    )
    op.create_table(
        "registry_reward_uses",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("run_id", sa.String(64), primary_key=True),
        sa.Column("create_time", UtcDateTime, nullable=False),
        sa.ForeignKeyConstraint(
            ["name", "number"],
            ["registry_rewards.name", "registry_rewards.number"],
        ),
    )
