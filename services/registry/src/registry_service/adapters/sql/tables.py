"""The tables of registry-service. Prefixed, since services may share a database."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
)
from sqlalchemy.types import JSON

from ratchet_kit.sql import UtcDateTime, hold_columns, request_columns

metadata = MetaData()

models = Table(
    "registry_models",
    metadata,
    Column("name", String(63), primary_key=True),
    Column("description", Text, nullable=False),
    Column("create_time", UtcDateTime, nullable=False),
    Column("latest_version", Integer, nullable=False),
    # None where the model was made by its first version.
    Column("request_id", String(200), unique=True),
    Column("fingerprint", String(64)),
)

versions = Table(
    "registry_versions",
    metadata,
    Column("model", ForeignKey(models.c.name), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("source_uri", Text, nullable=False),
    Column("lineage", JSON, nullable=False),
    Column("labels", JSON, nullable=False),
    Column("create_time", UtcDateTime, nullable=False),
    Column("state", String(16), nullable=False, index=True),
    # Empty until the version is READY.
    Column("artifact_uri", Text, nullable=False),
    Column("artifact_sha256", String(64), nullable=False),
    Column("policy_id", String(80), nullable=False, index=True),
    Column("size_bytes", BigInteger, nullable=False),
    Column("settings_id", String(80), nullable=False),
    Column("failure_code", String(32)),
    Column("failure_message", Text),
    Column("end_time", UtcDateTime),
    *hold_columns(),
    *request_columns(),
)

# What versions learned from, or were chosen by, by the digest in their lineage: the fingerprints of its problems.
training_sets = Table(
    "registry_training_sets",
    metadata,
    Column("digest", String(80), primary_key=True),
    Column("fingerprints", JSON, nullable=False),
)

# Files that are being written, or are to be removed. The row goes when they become a version's, in one transaction.
uploads = Table(
    "registry_uploads",
    metadata,
    Column("key", String(200), primary_key=True),
    Column("create_time", UtcDateTime, nullable=False),
    Column("abandoned", Boolean, nullable=False),
)

aliases = Table(
    "registry_aliases",
    metadata,
    Column("model", String(63), primary_key=True),
    Column("alias", String(63), primary_key=True),
    Column("version", Integer, nullable=False),
    ForeignKeyConstraint(["model", "version"], [versions.c.model, versions.c.number]),
)

# Rows are only ever added.
alias_changes = Table(
    "registry_alias_changes",
    metadata,
    Column("position", Integer, primary_key=True, autoincrement=True),
    Column("model", ForeignKey(models.c.name), nullable=False),
    Column("alias", String(63), nullable=False),
    Column("from_number", Integer, nullable=False),
    Column("to_number", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("gate_id", String(64), nullable=False),
    Column("create_time", UtcDateTime, nullable=False),
    Column("actor", String(64), nullable=False),
    Column("takes_back", Boolean, nullable=False, server_default=false()),
    Index("registry_alias_changes_by_alias", "model", "alias", "position"),
)

gates = Table(
    "registry_gates",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("model", ForeignKey(models.c.name), nullable=False, index=True),
    Column("candidate_number", Integer, nullable=False),
    Column("champion_number", Integer, nullable=False),
    Column("candidate_evaluation_id", String(200), nullable=False),
    Column("champion_evaluation_id", String(200), nullable=False),
    Column("min_difference", Float, nullable=False),
    Column("rules", JSON, nullable=False),
    Column("create_time", UtcDateTime, nullable=False),
    Column("state", String(16), nullable=False),
    Column("comparison", JSON(none_as_null=True)),
    Column("reason", Text, nullable=False),
    Column("guards", JSON, nullable=False),
    # How many comparisons could have been gated on its problems.
    Column("tries", Integer, nullable=False),
    Column("failure_code", String(32)),
    Column("failure_message", Text),
    Column("end_time", UtcDateTime),
    *hold_columns(),
    *request_columns(),
)

# Of rewards. The row stays when all versions are gone: their numbers are not given again.
reward_names = Table(
    "registry_reward_names",
    metadata,
    Column("name", String(63), primary_key=True),
    Column("latest_number", Integer, nullable=False),
)

rewards = Table(
    "registry_rewards",
    metadata,
    Column("name", ForeignKey(reward_names.c.name), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("source", Text, nullable=False),
    Column("digest", String(80), nullable=False),
    Column("size_bytes", Integer, nullable=False),
    Column("description", Text, nullable=False),
    Column("create_time", UtcDateTime, nullable=False),
    Column("actor", String(64), nullable=False),
    # How many rows of reward_uses it has, and the last of them.
    Column("runs", Integer, nullable=False),
    Column("last_run_id", String(64), nullable=False),
    *request_columns(),
    UniqueConstraint("name", "digest"),
)

reward_uses = Table(
    "registry_reward_uses",
    metadata,
    Column("name", String(63), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("run_id", String(64), primary_key=True),
    Column("create_time", UtcDateTime, nullable=False),
    ForeignKeyConstraint(["name", "number"], [rewards.c.name, rewards.c.number]),
)

# Of data sets. The row stays when all versions are gone: their numbers are not given again.
dataset_names = Table(
    "registry_dataset_names",
    metadata,
    Column("name", String(63), primary_key=True),
    Column("latest_number", Integer, nullable=False),
)

datasets = Table(
    "registry_datasets",
    metadata,
    Column("name", ForeignKey(dataset_names.c.name), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("card", JSON, nullable=False),
    # By name: the upload, what of it is there, and the content.
    Column("splits", JSON, nullable=False),
    # Over the uploads: the same files are the same data set.
    Column("digest", String(64), nullable=False, index=True),
    Column("create_time", UtcDateTime, nullable=False),
    Column("actor", String(64), nullable=False),
    Column("state", String(16), nullable=False),
    Column("failure_code", String(32)),
    Column("failure_message", Text),
    Column("end_time", UtcDateTime),
    # How many rows of dataset_uses it has, and the last of them.
    Column("uses", Integer, nullable=False),
    Column("last_user", String(64), nullable=False),
    *hold_columns(),
    *request_columns(),
)

dataset_uses = Table(
    "registry_dataset_uses",
    metadata,
    Column("name", String(63), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("user", String(64), primary_key=True),
    Column("create_time", UtcDateTime, nullable=False),
    ForeignKeyConstraint(["name", "number"], [datasets.c.name, datasets.c.number]),
)

# They stay when their data set is deleted: they are a record of who decided what, and why.
dataset_decisions = Table(
    "registry_dataset_decisions",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", String(63), nullable=False),
    Column("number", Integer, nullable=False),
    # What the person selected.
    Column("kind", String(32), nullable=False),
    Column("split", String(400), nullable=False),
    Column("problem", String(400), nullable=False),
    Column("other_set", String(400), nullable=False),
    Column("state", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("actor", String(64), nullable=False),
    Column("create_time", UtcDateTime, nullable=False),
)

# Those that somebody decided stay when their data set is deleted: models learned from it.
dataset_findings = Table(
    "registry_dataset_findings",
    metadata,
    Column("name", String(63), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("place", Integer, primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("split", String(40), nullable=False),
    # Of the problems of the split.
    Column("digest", String(80), nullable=False),
    Column("problem", Text, nullable=False),
    Column("other_set", Text, nullable=False),
    Column("other_digest", String(80), nullable=False),
    Column("other", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("decision_id", ForeignKey(dataset_decisions.c.id)),
    Index("ix_registry_dataset_findings_problem", "name", "number", "problem"),
    Index("ix_registry_dataset_findings_digest", "digest", "decision_id"),
)

# Of pairs that are made of kept traffic: whose they are (a digest of a user, a session or a key), and the earliest.
dataset_units = Table(
    "registry_dataset_units",
    metadata,
    Column("unit", String(64), primary_key=True),
    Column("name", String(63), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("time", UtcDateTime, nullable=False),
)

# Whose pairs are forgotten, and until when. Who adds to it, or makes pairs READY, holds the row without a unit.
forgotten = Table(
    "registry_forgotten",
    metadata,
    Column("unit", String(64), primary_key=True),
    Column("forget_time", UtcDateTime, nullable=False),
)
