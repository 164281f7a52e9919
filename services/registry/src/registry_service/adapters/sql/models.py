"""ModelStore on SQLite and PostgreSQL."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeVar

from sqlalchemy import Row, Select, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from ratchet_kit.errors import Aborted, AlreadyExists, NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.names import VersionRef, suggestion
from ratchet_kit.sql import Database, insert_if_absent
from registry_service.adapters.sql.rows import to_model, to_recorded, to_version
from registry_service.adapters.sql.tables import alias_changes, aliases, models, versions
from registry_service.domain.model import AliasChange, Model, RecordedChange
from registry_service.domain.version import State, Version

R = TypeVar("R")
MOST_COMPARED = 1_000
"""Names that a wrong one is compared with."""


class SqlModelStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, model: Model, request: Request) -> Model:
        row = {
            "name": model.name,
            "description": model.description,
            "create_time": model.create_time,
            "latest_version": 0,
        }
        if await self._database.insert_if_absent(models, row | request.columns):
            return model
        made = await self.find(request)
        if made is None:
            raise AlreadyExists(f"model {model.name} exists")
        return made

    async def find(self, request: Request) -> Model | None:
        row = await self._database.made_by(request, select(models), "model")
        return None if row is None else await self.get(row.name)

    async def get(self, name: str) -> Model:
        async with self._database.reading() as connection:
            return await model_of(connection, name)

    async def page(self, limit: int, after: str | None) -> Sequence[Model]:
        query = select(models).order_by(models.c.name)
        if after is not None:
            query = query.where(models.c.name > after)
        found = await self._database.readable(query, lambda row: to_model(row, {}), limit)
        named: dict[str, dict[str, int]] = {model.name: {} for model in found}
        for row in await self._database.rows(select(aliases).where(aliases.c.model.in_(named))):
            named[row.model][row.alias] = row.version
        failed = {row.model: row.failed for row in await self._database.rows(_failed(named))}
        return [replace(model, aliases=named[model.name], failed_versions=failed.get(model.name, 0)) for model in found]

    async def delete(self, name: str) -> None:
        async with self._database.writing() as connection:
            await connection.execute(select(models.c.name).where(models.c.name == name).with_for_update())
            (await model_of(connection, name)).check_deletable()
            await connection.execute(delete(models).where(models.c.name == name))

    async def move_alias(self, change: AliasChange) -> Model:
        async with self._database.writing() as connection:
            (await version_of(connection, VersionRef(change.model, change.to_number), shared=True)).check_ready()
            if not await _compare_and_set(connection, change):
                raise Aborted(
                    f"alias {change.alias} of {change.model} was moved by somebody else at the same time; read it again"
                )
            await connection.execute(insert(alias_changes).values(asdict(change)))
            return await model_of(connection, change.model)

    async def history(
        self, model: str, alias: str | None, limit: int | None, after: int | None
    ) -> Sequence[RecordedChange]:
        position = alias_changes.c.position
        query = select(alias_changes).where(alias_changes.c.model == model).order_by(position.desc())
        if alias is not None:
            query = query.where(alias_changes.c.alias == alias)
        if after is not None:
            query = query.where(position < after)
        return await readable_of(self._database, model, query, to_recorded, limit)


async def model_of(connection: AsyncConnection, name: str) -> Model:
    """Raises NotFound."""
    row = (await connection.execute(select(models).where(models.c.name == name))).first()
    if row is None:
        known = (await connection.execute(select(models.c.name).limit(MOST_COMPARED))).scalars()
        raise NotFound(f"there is no model {name!r}{suggestion(name, known)}")
    named = await connection.execute(select(aliases).where(aliases.c.model == name))
    failed = (await connection.execute(_failed([name]))).first()
    model = to_model(row, {alias.alias: alias.version for alias in named})
    return replace(model, failed_versions=failed.failed if failed else 0)


def _failed(names: Iterable[str]) -> Select[Any]:
    """Numbers of failed versions by model, for models that have some."""
    query = select(versions.c.model, func.count().label("failed")).group_by(versions.c.model)
    return query.where(versions.c.model.in_(names), versions.c.state == State.FAILED.value)


async def version_of(
    connection: AsyncConnection, ref: VersionRef, *, shared: bool = False, locked: bool = False
) -> Version:
    """The version; nobody else deletes it (`shared`) or changes it (`locked`) before the end of the transaction.

    Raises NotFound, saying whether the model or the version is missing.
    """
    query = select(versions).where(versions.c.model == ref.model, versions.c.number == ref.number)
    if shared or locked:
        query = query.with_for_update(read=not locked)
    row = (await connection.execute(query)).first()
    if row is None:
        await model_of(connection, ref.model)
        raise NotFound(f"model {ref.model} has no version {ref.number}")
    return to_version(row)


async def readable_of(
    database: Database, model: str, query: Select[Any], read: Callable[[Row[Any]], R], limit: int | None
) -> Sequence[R]:
    """`Database.readable` of a query about a model. Raises NotFound when nothing is found since there is no model."""
    found = await database.readable(query, read, limit)
    if not found:
        async with database.reading() as connection:
            await model_of(connection, model)
    return found


async def _compare_and_set(connection: AsyncConnection, change: AliasChange) -> bool:
    """Moves the alias if it still points where the change says that it does."""
    if change.from_number == 0:
        row = {"model": change.model, "alias": change.alias, "version": change.to_number}
        return await insert_if_absent(connection, aliases, row) == 1
    is_it = (aliases.c.model == change.model, aliases.c.alias == change.alias, aliases.c.version == change.from_number)
    result = await connection.execute(update(aliases).where(*is_it).values(version=change.to_number))
    return result.rowcount == 1
