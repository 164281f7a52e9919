"""ReleaseStore on SQLite and PostgreSQL."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Row, select, update

from gateway_service.adapters.sql import webhooks
from gateway_service.adapters.sql.tables import releases
from gateway_service.domain.releases.release import Release
from gateway_service.domain.webhooks.event import event_of_release
from ratchet_kit.errors import Aborted, FailedPrecondition, NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.sql import Database

_documents = TypeAdapter(Release)


class SqlReleaseStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, release: Release, request: Request) -> Release:
        if await self._database.insert_if_absent(releases, _row(release) | request.columns):
            return release
        existing = await self.find(request)
        if existing is None:
            raise FailedPrecondition(f"a release of model {release.model} is under way")
        return existing

    async def find(self, request: Request) -> Release | None:
        row = await self._database.made_by(request, select(releases), "release")
        return None if row is None else _release(row)

    async def get(self, release_id: str) -> Release:
        row = await self._database.first(select(releases).where(releases.c.id == release_id))
        if row is None:
            raise NotFound(f"release {release_id} does not exist")
        return _release(row)

    async def active(self, model: str) -> Release | None:
        row = await self._database.first(select(releases).where(releases.c.active_model == model))
        return None if row is None else _release(row)

    async def all_active(self) -> Sequence[Release]:
        return await self._database.readable(select(releases).where(releases.c.active_model.is_not(None)), _release)

    async def unfinished(self) -> Sequence[Release]:
        query = select(releases).where(releases.c.unfinished).order_by(releases.c.id)
        return await self._database.readable(query, _release)

    async def page(self, model: str, limit: int, after: str | None) -> Sequence[Release]:
        query = select(releases).order_by(releases.c.id.desc())
        if model:
            query = query.where(releases.c.model == model)
        if after is not None:
            query = query.where(releases.c.id < after)
        return await self._database.readable(query, _release, limit)

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


def _release(row: Row[Any]) -> Release:
    return _documents.validate_python(row.document)


def _row(release: Release) -> dict[str, Any]:
    return {
        "id": release.id,
        "model": release.model,
        "active_model": release.model if release.active else None,
        "unfinished": release.active or release.retire_time is None,
        "revision": release.revision,
        "document": _documents.dump_python(release, mode="json"),
    }
