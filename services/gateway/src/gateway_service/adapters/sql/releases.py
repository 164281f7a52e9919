"""ReleaseStore on SQLite and PostgreSQL."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import select, update

from gateway_service.adapters.sql import under_way, webhooks
from gateway_service.adapters.sql.tables import releases
from gateway_service.adapters.sql.under_way import release_documents, to_release
from gateway_service.domain.releases.release import Release
from gateway_service.domain.webhooks.event import event_of_release
from ratchet_kit import sql
from ratchet_kit.errors import Aborted, FailedPrecondition, NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.sql import Database


class SqlReleaseStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, release: Release, request: Request) -> Release:
        try:
            async with self._database.writing() as connection:
                (await under_way.lock(connection, release.model)).check_release()
                if await sql.insert_if_absent(connection, releases, _row(release) | request.columns):
                    return release
        except FailedPrecondition:
            existing = await self.find(request)  # that it is under way already
            if existing is None:
                raise
            return existing
        existing = await self.find(request)
        assert existing is not None, "the model has none under way, so the request made it"
        return existing

    async def find(self, request: Request) -> Release | None:
        row = await self._database.made_by(request, select(releases), "release")
        return None if row is None else to_release(row)

    async def get(self, release_id: str) -> Release:
        row = await self._database.first(select(releases).where(releases.c.id == release_id))
        if row is None:
            raise NotFound(f"release {release_id} does not exist")
        return to_release(row)

    async def active(self, model: str) -> Release | None:
        row = await self._database.first(select(releases).where(releases.c.active_model == model))
        return None if row is None else to_release(row)

    async def all_active(self) -> Sequence[Release]:
        return await self._database.readable(select(releases).where(releases.c.active_model.is_not(None)), to_release)

    async def unfinished(self) -> Sequence[Release]:
        query = select(releases).where(releases.c.unfinished).order_by(releases.c.id)
        return await self._database.readable(query, to_release)

    async def page(self, model: str, limit: int, after: str | None) -> Sequence[Release]:
        query = select(releases).order_by(releases.c.id.desc())
        if model:
            query = query.where(releases.c.model == model)
        if after is not None:
            query = query.where(releases.c.id < after)
        return await self._database.readable(query, to_release, limit)

    async def save(self, release: Release) -> Release:
        saved = replace(release, revision=release.revision + 1)
        change = update(releases).where(releases.c.id == release.id, releases.c.revision == release.revision)
        async with self._database.writing() as connection:
            result = await connection.execute(change.values(_row(saved)))
            if result.rowcount != 1:
                raise Aborted(f"release {release.id} was changed by someone else at the same time")
            if event := event_of_release(saved):
                await webhooks.announce(connection, [event], event.create_time)
        return saved


def _row(release: Release) -> dict[str, Any]:
    return {
        "id": release.id,
        "model": release.model,
        "active_model": release.model if release.active else None,
        "unfinished": release.active or release.retire_time is None,
        "revision": release.revision,
        "document": release_documents.dump_python(release, mode="json"),
    }
