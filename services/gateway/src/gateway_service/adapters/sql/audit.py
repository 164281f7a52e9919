"""AuditStore on SQLite and PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select

from gateway_service.adapters.sql.tables import audit
from gateway_service.domain.keys.audit import Entry
from ratchet_kit.sql import Database, row_of, value_of


class SqlAuditStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, entry: Entry) -> None:
        await self._database.insert_if_absent(audit, row_of(entry, audit))

    async def page(self, actor: str, since: datetime | None, limit: int, after: str | None) -> Sequence[Entry]:
        query = select(audit).order_by(audit.c.id.desc())
        if after is not None:
            query = query.where(audit.c.id < after)
        if actor:
            query = query.where(audit.c.actor == actor)
        if since is not None:
            query = query.where(audit.c.create_time >= since)
        return await self._database.readable(query, lambda row: value_of(Entry, row), limit)
