"""ModelStore on SQLite and PostgreSQL."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, Table, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from ratchet_kit.errors import Aborted, AlreadyExists, NotFound, Unavailable
from ratchet_kit.idempotency import Request
from registry_service.adapters.rows import gate_row, to_gate, to_model, to_recorded, to_version, version_row
from registry_service.adapters.tables import alias_changes, aliases, gates, models, uploads, versions
from registry_service.domain.gates import Gate
from registry_service.domain.models import AliasChange, Model, RecordedChange, Version, VersionDraft


class SqlModelStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._reader = engine.execution_options(read_only=True)

    # Models

    async def create_model(self, model: Model) -> Model:
        async with self._writing() as connection:
            if not await _add_model(connection, model.name, model.description, model.create_time):
                raise AlreadyExists(f"model {model.name} exists")
        return model

    async def get_model(self, name: str) -> Model:
        async with self._reading() as connection:
            return await _model(connection, name)

    async def list_models(self, limit: int, after: str | None) -> Sequence[Model]:
        query = select(models).order_by(models.c.name).limit(limit)
        if after is not None:
            query = query.where(models.c.name > after)
        async with self._reading() as connection:
            rows = (await connection.execute(query)).all()
            where = aliases.c.model.in_([row.name for row in rows])
            found: dict[str, dict[str, int]] = {row.name: {} for row in rows}
            for row in await connection.execute(select(aliases).where(where)):
                found[row.model][row.alias] = row.version
        return [to_model(row, found[row.name]) for row in rows]

    # Versions

    async def begin_upload(self, key: str, now: datetime) -> None:
        async with self._writing() as connection:
            await connection.execute(insert(uploads).values(key=key, create_time=now, abandoned=False))

    async def abandon_upload(self, key: str) -> bool:
        async with self._writing() as connection:
            result = await connection.execute(update(uploads).where(uploads.c.key == key).values(abandoned=True))
            return result.rowcount == 1

    async def end_upload(self, key: str) -> None:
        async with self._writing() as connection:
            await connection.execute(delete(uploads).where(uploads.c.key == key))

    async def uploads_before(self, time: datetime) -> Sequence[str]:
        async with self._reading() as connection:
            return (await connection.execute(select(uploads.c.key).where(uploads.c.create_time < time))).scalars().all()

    async def add_version(self, draft: VersionDraft, upload: str, request: Request) -> Version:
        async with self._writing() as connection:
            ended = await connection.execute(delete(uploads).where(uploads.c.key == upload, ~uploads.c.abandoned))
            if ended.rowcount != 1:
                raise Aborted(f"the upload {upload} took too long and was given up; send the request again")
            await _add_model(connection, draft.model, "", draft.create_time)
            counted = (
                update(models).where(models.c.name == draft.model).values(latest_version=models.c.latest_version + 1)
            )
            number: int = (await connection.execute(counted.returning(models.c.latest_version))).scalar_one()
            version = draft.numbered(number)
            if not await _insert_if_absent(connection, versions, version_row(version, request)):
                raise AlreadyExists(f"a version was made under request {request.id} at the same time")
        return version

    async def version_of_request(self, request: Request) -> Version | None:
        row = await self._first(select(versions).where(versions.c.request_id == request.id))
        if row is None:
            return None
        request.check_same(row.fingerprint, "version")
        return to_version(row)

    async def get_version(self, model: str, number: int) -> Version:
        row = await self._first(select(versions).where(versions.c.model == model, versions.c.number == number))
        if row is None:
            await self.get_model(model)
            raise NotFound(f"model {model} has no version {number}")
        return to_version(row)

    async def list_versions(self, model: str, limit: int, after: int | None) -> Sequence[Version]:
        query = select(versions).where(versions.c.model == model).order_by(versions.c.number.desc()).limit(limit)
        if after is not None:
            query = query.where(versions.c.number < after)
        return [to_version(row) for row in await self._rows_of(model, query)]

    # Aliases

    async def move_alias(self, change: AliasChange) -> Model:
        async with self._writing() as connection:
            if not await _compare_and_set(connection, change):
                raise Aborted(
                    f"alias {change.alias} of {change.model} was moved by somebody else at the same time; read it again"
                )
            await connection.execute(insert(alias_changes).values(asdict(change)))
            return await _model(connection, change.model)

    async def past_versions(self, model: str, alias: str) -> frozenset[int]:
        query = select(alias_changes.c.to_version).where(alias_changes.c.model == model, alias_changes.c.alias == alias)
        async with self._reading() as connection:
            return frozenset((await connection.execute(query.distinct())).scalars())

    async def list_alias_history(
        self, model: str, alias: str | None, limit: int, after: int | None
    ) -> Sequence[RecordedChange]:
        position = alias_changes.c.position
        query = select(alias_changes).where(alias_changes.c.model == model).order_by(position.desc()).limit(limit)
        if alias is not None:
            query = query.where(alias_changes.c.alias == alias)
        if after is not None:
            query = query.where(position < after)
        return [to_recorded(row) for row in await self._rows_of(model, query)]

    # Gates

    async def add_gate(self, gate: Gate, request: Request) -> Gate:
        async with self._writing() as connection:
            await _insert_if_absent(connection, gates, gate_row(gate, request))
        stored = await self.gate_of_request(request)
        assert stored is not None
        return stored

    async def gate_of_request(self, request: Request) -> Gate | None:
        row = await self._first(select(gates).where(gates.c.request_id == request.id))
        if row is None:
            return None
        request.check_same(row.fingerprint, "gate")
        return to_gate(row)

    async def get_gate(self, id: str) -> Gate:
        row = await self._first(select(gates).where(gates.c.id == id))
        if row is None:
            raise NotFound(f"there is no gate {id}")
        return to_gate(row)

    async def list_gates(self, model: str, limit: int, after: str | None) -> Sequence[Gate]:
        query = select(gates).where(gates.c.model == model).order_by(gates.c.id.desc()).limit(limit)
        if after is not None:
            query = query.where(gates.c.id < after)
        return [to_gate(row) for row in await self._rows_of(model, query)]

    # Connections

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[AsyncConnection]:
        with _reachable():
            async with self._engine.begin() as connection:
                yield connection

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[AsyncConnection]:
        with _reachable():
            async with self._reader.connect() as connection:
                yield connection

    async def _first(self, query: Select[Any]) -> Row[Any] | None:
        async with self._reading() as connection:
            row: Row[Any] | None = (await connection.execute(query)).first()
            return row

    async def _rows_of(self, model: str, query: Select[Any]) -> Sequence[Row[Any]]:
        """The rows of a query about a model. Raises NotFound when there are none since the model does not exist."""
        async with self._reading() as connection:
            rows: Sequence[Row[Any]] = (await connection.execute(query)).all()
            if not rows:
                await _model(connection, model)
            return rows


async def _model(connection: AsyncConnection, name: str) -> Model:
    row = (await connection.execute(select(models).where(models.c.name == name))).first()
    if row is None:
        raise NotFound(f"there is no model {name!r}")
    named = await connection.execute(select(aliases).where(aliases.c.model == name))
    return to_model(row, {alias.alias: alias.version for alias in named})


async def _add_model(connection: AsyncConnection, name: str, description: str, now: datetime) -> bool:
    row = {"name": name, "description": description, "create_time": now, "latest_version": 0}
    return await _insert_if_absent(connection, models, row)


async def _compare_and_set(connection: AsyncConnection, change: AliasChange) -> bool:
    """Moves the alias if it still points where the change says that it does."""
    if change.from_version == 0:
        row = {"model": change.model, "alias": change.alias, "version": change.to_version}
        return await _insert_if_absent(connection, aliases, row)
    is_it = (aliases.c.model == change.model, aliases.c.alias == change.alias, aliases.c.version == change.from_version)
    result = await connection.execute(update(aliases).where(*is_it).values(version=change.to_version))
    return result.rowcount == 1


async def _insert_if_absent(connection: AsyncConnection, table: Table, row: Mapping[str, Any]) -> bool:
    """Inserts the row; False, and nothing done, where its key or a unique column is taken."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    insertion = dialect.insert(table).values(row).on_conflict_do_nothing().returning(*table.primary_key)
    return (await connection.execute(insertion)).first() is not None


@contextmanager
def _reachable() -> Iterator[None]:
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise Unavailable(f"the registry's database cannot be used: {error.orig}") from error
