"""Versions and gates are made in the background: they have states, failures and holds. Models have requests.

Revision ID: registry_0002
"""

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "registry_0002"
down_revision = "registry_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("registry_models", sa.Column("request_id", sa.String(200)))
    op.add_column("registry_models", sa.Column("fingerprint", sa.String(64)))
    op.create_index("ix_registry_models_request_id", "registry_models", ["request_id"], unique=True)
    _rename("registry_alias_changes", {"from_version": "from_number", "to_version": "to_number", "time": "create_time"})

    # No batch: it would make the table anew, and aliases point at it.
    op.add_column("registry_versions", sa.Column("source_uri", sa.Text, nullable=False, server_default=""))
    _add_work("registry_versions", "ready")
    op.execute("UPDATE registry_versions SET end_time = create_time")

    _rename(
        "registry_gates",
        {
            "candidate_version": "candidate_number",
            "champion_version": "champion_number",
            "candidate_evaluation": "candidate_evaluation_id",
            "champion_evaluation": "champion_evaluation_id",
        },
    )
    op.add_column("registry_gates", sa.Column("comparison", sa.JSON))
    _add_work("registry_gates", "refused")
    _fill_gates()
    with op.batch_alter_table("registry_gates") as gates:
        for column in ("difference", "difference_low", "difference_high", "p_value", "passed"):
            gates.drop_column(column)


def _rename(table: str, names: dict[str, str]) -> None:
    for before, now in names.items():
        op.execute(f'ALTER TABLE {table} RENAME COLUMN "{before}" TO {now}')


def _add_work(table: str, state: str) -> None:
    op.add_column(table, sa.Column("state", sa.String(16), nullable=False, server_default=state))
    op.add_column(table, sa.Column("failure_code", sa.String(32)))
    op.add_column(table, sa.Column("failure_message", sa.Text))
    op.add_column(table, sa.Column("end_time", UtcDateTime))
    op.add_column(table, sa.Column("held_by", sa.String(200), nullable=False, server_default=""))
    op.add_column(table, sa.Column("held_until", UtcDateTime))
    op.add_column(table, sa.Column("attempts", sa.Integer, nullable=False, server_default="0"))


def _fill_gates() -> None:
    """What was decided is kept. The estimates of either side, and how many problems there were, were not stored."""
    names = ("id", "difference", "difference_low", "difference_high", "p_value", "passed", "create_time", "end_time")
    gates = sa.table("registry_gates", *map(sa.column, names), sa.column("state"), sa.column("comparison", sa.JSON))
    unknown = {"value": 0.0, "low": 0.0, "high": 0.0}
    connection = op.get_bind()
    for gate in connection.execute(sa.select(gates)).all():
        difference = {"value": gate.difference, "low": gate.difference_low, "high": gate.difference_high}
        comparison = {
            "baseline": unknown,
            "candidate": unknown,
            "difference": difference,
            "p_value": gate.p_value,
            "problems": 0,
        }
        values = {"comparison": comparison, "state": "passed" if gate.passed else "refused"}
        connection.execute(sa.update(gates).where(gates.c.id == gate.id).values(values))
    op.execute("UPDATE registry_gates SET end_time = create_time")
