"""Time fields get the names that all services use: start_time, create_time, retire_time."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

RELEASE_FIELDS = {"retired_at": "retire_time", "stage_start": "stage_start_time"}
EVENT_FIELDS = {"time": "create_time"}

releases = sa.table("gateway_releases", sa.column("id", sa.String), sa.column("document", sa.JSON))


def upgrade() -> None:
    op.execute("ALTER TABLE gateway_completions RENAME COLUMN time TO start_time")
    _rewrite(RELEASE_FIELDS, EVENT_FIELDS)


def downgrade() -> None:
    op.execute("ALTER TABLE gateway_completions RENAME COLUMN start_time TO time")
    _rewrite({new: old for old, new in RELEASE_FIELDS.items()}, {new: old for old, new in EVENT_FIELDS.items()})


def _rewrite(release_fields: Mapping[str, str], event_fields: Mapping[str, str]) -> None:
    connection = op.get_bind()
    for row in connection.execute(sa.select(releases)).all():
        document = _renamed(row.document, release_fields)
        document["events"] = [_renamed(event, event_fields) for event in document["events"]]
        connection.execute(sa.update(releases).where(releases.c.id == row.id).values(document=document))


def _renamed(document: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    return {fields.get(name, name): value for name, value in document.items()}
