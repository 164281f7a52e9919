"""A share of a release's traffic stays with the baseline: releases from before keep none, as they were asked for."""

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_releases = sa.table("gateway_releases", sa.column("id", sa.String), sa.column("document", sa.JSON))


def upgrade() -> None:
    _change(lambda spec: spec | {"baseline_percent": 0})


def downgrade() -> None:
    _change(lambda spec: {name: value for name, value in spec.items() if name != "baseline_percent"})


def _change(change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    connection = op.get_bind()
    for id, document in connection.execute(sa.select(_releases.c.id, _releases.c.document)).all():
        if "spec" in document:  # one that cannot be read is left as it is
            changed = document | {"spec": change(document["spec"])}
            connection.execute(sa.update(_releases).where(_releases.c.id == id).values(document=changed))
