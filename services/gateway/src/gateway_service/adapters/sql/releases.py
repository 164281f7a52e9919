"""ReleaseStore on SQLite and PostgreSQL."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Select, insert, select, update
from sqlalchemy.exc import IntegrityError

from gateway_service.adapters.sql.tables import releases
from gateway_service.domain.releases.release import Release
from ratchet_kit.errors import Aborted, AlreadyExists, FailedPrecondition, NotFound
from ratchet_kit.sql import Database

_documents = TypeAdapter(Release)


class SqlReleaseStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, release: Release) -> None:
        try:
            async with self._database.writing() as connection:
                await connection.execute(insert(releases).values(_row(release)))
        except IntegrityError as error:
            if await self.by_request(release.request_id):
                raise AlreadyExists(f"request id {release.request_id} is taken") from error
            raise FailedPrecondition(f"a release of model {release.spec.model} is under way") from error

    async def get(self, release_id: str) -> Release:
        found = await self._all(select(releases.c.document).where(releases.c.id == release_id))
        if not found:
            raise NotFound(f"release {release_id} does not exist")
        return found[0]

    async def by_request(self, request_id: str) -> Release | None:
        found = await self._all(select(releases.c.document).where(releases.c.request_id == request_id))
        return found[0] if found else None

    async def active(self, model: str) -> Release | None:
        found = await self._all(select(releases.c.document).where(releases.c.active_model == model))
        return found[0] if found else None

    async def unfinished(self) -> Sequence[Release]:
        return await self._all(select(releases.c.document).where(releases.c.unfinished).order_by(releases.c.id))

    async def page(self, model: str, limit: int, after: str | None) -> Sequence[Release]:
        query = select(releases.c.document).order_by(releases.c.id.desc()).limit(limit)
        if model:
            query = query.where(releases.c.model == model)
        if after is not None:
            query = query.where(releases.c.id < after)
        return await self._all(query)

    async def save(self, release: Release) -> Release:
        saved = replace(release, revision=release.revision + 1)
        change = update(releases).where(releases.c.id == release.id, releases.c.revision == release.revision)
        async with self._database.writing() as connection:
            result = await connection.execute(change.values(_row(saved)))
        if result.rowcount != 1:
            raise Aborted(f"release {release.id} was changed by someone else at the same time")
        return saved

    async def _all(self, query: Select[Any]) -> Sequence[Release]:
        return [_documents.validate_python(row.document) for row in await self._database.rows(query)]


def _row(release: Release) -> dict[str, Any]:
    return {
        "id": release.id,
        "request_id": release.request_id,
        "model": release.spec.model,
        "active_model": release.spec.model if release.active else None,
        "unfinished": release.active or release.retire_time is None,
        "revision": release.revision,
        "document": _documents.dump_python(release, mode="json"),
    }
