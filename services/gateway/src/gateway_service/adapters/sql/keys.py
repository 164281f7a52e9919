"""KeyStore on SQLite and PostgreSQL."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Row, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway_service.adapters.sql.tables import api_keys, revisions
from gateway_service.domain.keys.key import ApiKey, Scope
from gateway_service.domain.keys.ports import ChangedKeys
from ratchet_kit import sql
from ratchet_kit.errors import AlreadyExists, NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.sql import Database, row_of, value_of


class SqlKeyStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, key: ApiKey, request: Request) -> ApiKey:
        async with self._database.writing() as connection:
            revision = await _next_revision(connection)
            new = _row(key) | {"revision": revision} | request.columns
            if await sql.insert_if_absent(connection, api_keys, new):
                return key
        row = await self._database.made_by(request, select(api_keys), "API key")
        if row is None:
            raise AlreadyExists("this API key exists")
        return _key(row)

    async def get(self, key_id: str) -> ApiKey:
        row = await self._database.first(select(api_keys).where(api_keys.c.id == key_id))
        if row is None:
            raise NotFound(f"API key {key_id} does not exist")
        return _key(row)

    async def by_digest(self, digest: str) -> ApiKey | None:
        row = await self._database.first(select(api_keys).where(api_keys.c.digest == digest))
        return None if row is None else _key(row)

    async def page(self, limit: int, after: str | None) -> Sequence[ApiKey]:
        query = select(api_keys).order_by(api_keys.c.id.desc())
        if after is not None:
            query = query.where(api_keys.c.id < after)
        return await self._database.readable(query, _key, limit)

    async def change(self, key_id: str, change: Callable[[ApiKey], ApiKey]) -> ApiKey:
        async with self._database.writing() as connection:
            revision = await _next_revision(connection)  # every other change waits for this one
            row = (await connection.execute(select(api_keys).where(api_keys.c.id == key_id))).one_or_none()
            if row is None:
                raise NotFound(f"API key {key_id} does not exist")
            changed = change(_key(row))
            values = _row(changed) | {"revision": revision}
            await connection.execute(update(api_keys).where(api_keys.c.id == key_id).values(values))
            return changed

    async def changed_since(self, revision: int) -> ChangedKeys:
        rows = await self._database.rows(select(api_keys).where(api_keys.c.revision > revision))
        return ChangedKeys([_key(row) for row in rows], max((row.revision for row in rows), default=revision))


async def _next_revision(connection: AsyncConnection) -> int:
    change = update(revisions).where(revisions.c.name == "keys").values(revision=revisions.c.revision + 1)
    return int((await connection.execute(change.returning(revisions.c.revision))).scalar_one())


def _row(key: ApiKey) -> dict[str, Any]:
    return row_of(key, api_keys, scopes=sorted(key.scopes), models=sorted(key.models))


def _key(row: Row[Any]) -> ApiKey:
    return value_of(ApiKey, row, scopes=frozenset(map(Scope, row.scopes)), models=frozenset(row.models))
