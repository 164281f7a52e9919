"""Names of times, versions and failures as in all services; requests of keys and feedback are kept, too.

A request id from before this migration is not taken for a repetition any more: sent again, it is refused.
"""

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

from ratchet_kit.sql import UtcDateTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

releases = sa.table(
    "gateway_releases", sa.column("id", sa.String), sa.column("request_id", sa.String), sa.column("document", sa.JSON)
)


def upgrade() -> None:
    op.execute("ALTER TABLE gateway_completions RENAME COLUMN time TO start_time")
    op.add_column("gateway_releases", sa.Column("fingerprint", sa.String(64), nullable=False, server_default=""))
    _rewrite(_new)

    op.add_column("gateway_api_keys", sa.Column("request_id", sa.String(200), nullable=False, server_default=""))
    op.add_column("gateway_api_keys", sa.Column("fingerprint", sa.String(64), nullable=False, server_default=""))
    op.execute("UPDATE gateway_api_keys SET request_id = id")
    op.create_index("gateway_api_keys_by_request", "gateway_api_keys", ["request_id"], unique=True)

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


def downgrade() -> None:
    op.drop_table("gateway_feedback")
    op.drop_index("gateway_api_keys_by_request", "gateway_api_keys")
    for table, column in (
        ("gateway_api_keys", "request_id"),
        ("gateway_api_keys", "fingerprint"),
        ("gateway_releases", "fingerprint"),
    ):
        op.drop_column(table, column)
    _rewrite(_old)
    op.execute("ALTER TABLE gateway_completions RENAME COLUMN start_time TO time")


def _rewrite(change: Callable[[Any], dict[str, Any]]) -> None:
    connection = op.get_bind()
    for row in connection.execute(sa.select(releases)).all():
        connection.execute(sa.update(releases).where(releases.c.id == row.id).values(document=change(row)))


def _new(row: sa.Row[Any]) -> dict[str, Any]:
    new = dict(row.document)
    spec = dict(new["spec"])
    model = spec.pop("model")
    new["spec"] = spec | {"candidate": {"model": model, "number": spec["candidate"]}}
    new["baseline"] = {"model": model, "number": new["baseline"]}
    del new["request_id"]
    error = new.pop("error")
    new["failure"] = {"code": "FAILED_PRECONDITION", "message": error} if error else None
    new["stage_start_time"] = new.pop("stage_start")
    new["retire_time"] = new.pop("retired_at")
    new["events"] = [_renamed(event, "time", "create_time") for event in new["events"]]
    return new


def _old(row: sa.Row[Any]) -> dict[str, Any]:
    old = dict(row.document)
    spec, candidate = old["spec"], old["spec"]["candidate"]
    old["spec"] = spec | {"model": candidate["model"], "candidate": candidate["number"]}
    old["baseline"] = old["baseline"]["number"]
    old["request_id"] = row.request_id
    failure = old.pop("failure")
    old["error"] = failure["message"] if failure else ""
    old["stage_start"] = old.pop("stage_start_time")
    old["retired_at"] = old.pop("retire_time")
    old["events"] = [_renamed(event, "create_time", "time") for event in old["events"]]
    return old


def _renamed(values: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    return {new if name == old else name: value for name, value in values.items()}
