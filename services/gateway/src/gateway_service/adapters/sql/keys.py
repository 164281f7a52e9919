"""KeyStore on SQLite and PostgreSQL."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, Select, insert, select, update
from sqlalchemy.exc import IntegrityError

from gateway_service.adapters.sql.database import Database
from gateway_service.adapters.sql.tables import api_keys
from gateway_service.domain.keys.key import ApiKey, Scope
from ratchet_kit.errors import AlreadyExists, NotFound


class SqlKeyStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, key: ApiKey) -> None:
        try:
            async with self._database.writing() as connection:
                await connection.execute(insert(api_keys).values(_row(key)))
        except IntegrityError as error:
            raise AlreadyExists("this API key exists") from error

    async def get(self, key_id: str) -> ApiKey:
        found = await self._all(select(api_keys).where(api_keys.c.id == key_id))
        if not found:
            raise NotFound(f"API key {key_id} does not exist")
        return found[0]

    async def by_digest(self, digest: str) -> ApiKey | None:
        found = await self._all(select(api_keys).where(api_keys.c.digest == digest))
        return found[0] if found else None

    async def list(self) -> Sequence[ApiKey]:
        return await self._all(select(api_keys).order_by(api_keys.c.id))

    async def save(self, key: ApiKey) -> None:
        async with self._database.writing() as connection:
            result = await connection.execute(update(api_keys).where(api_keys.c.id == key.id).values(_row(key)))
        if result.rowcount != 1:
            raise NotFound(f"API key {key.id} does not exist")

    async def _all(self, query: Select[Any]) -> Sequence[ApiKey]:
        async with self._database.reading() as connection:
            return [_key(row) for row in await connection.execute(query)]


def _row(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "digest": key.digest,
        "hint": key.hint,
        "scopes": sorted(key.scopes),
        "create_time": key.create_time,
        "revoke_time": key.revoke_time,
    }


def _key(row: Row[Any]) -> ApiKey:
    return ApiKey(
        id=row.id,
        name=row.name,
        digest=row.digest,
        hint=row.hint,
        scopes=frozenset(Scope(scope) for scope in row.scopes),
        create_time=row.create_time,
        revoke_time=row.revoke_time,
    )
