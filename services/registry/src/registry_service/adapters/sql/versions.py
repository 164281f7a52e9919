"""VersionStore on SQLite and PostgreSQL."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import and_, delete, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from ratchet_kit.errors import Aborted
from ratchet_kit.idempotency import Request
from ratchet_kit.names import CHAMPION, VersionRef
from ratchet_kit.sql import Database, insert_if_absent, is_free
from registry_service.adapters.sql.models import readable_of, version_of
from registry_service.adapters.sql.rows import to_version, version_row
from registry_service.adapters.sql.tables import alias_changes, aliases, gates, models, training_sets, uploads, versions
from registry_service.domain import gate
from registry_service.domain.ports import VersionFilter
from registry_service.domain.version import State, Version, VersionSpec, check_deletion


class SqlVersionStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, spec: VersionSpec, now: datetime, request: Request) -> Version:
        try:
            async with self._database.writing() as connection:
                version = Version(VersionRef(spec.model, await _next_number(connection, spec.model, now)), spec, now)
                if not await insert_if_absent(connection, versions, version_row(version) | request.columns):
                    raise _MadeMeanwhile  # the number is not used up
        except _MadeMeanwhile:
            made = await self.find(request)
            assert made is not None
            return made
        return version

    async def find(self, request: Request) -> Version | None:
        row = await self._database.made_by(request, select(versions), "version")
        return None if row is None else to_version(row)

    async def get(self, ref: VersionRef) -> Version:
        async with self._database.reading() as connection:
            return await version_of(connection, ref)

    async def page(
        self, model: str | None, limit: int, after: Sequence[Any] | None, only: VersionFilter = VersionFilter()
    ) -> Sequence[Version]:
        query = select(versions).order_by(versions.c.model, versions.c.number.desc())
        if after is not None:
            name, number = after
            query = query.where(
                or_(versions.c.model > name, and_(versions.c.model == name, versions.c.number < number))
            )
        if only.state is not None:
            query = query.where(versions.c.state == only.state.value)
        if only.after_time is not None:
            query = query.where(versions.c.create_time >= only.after_time)
        if model is None:
            return await self._database.readable(query, to_version, limit)
        query = query.where(versions.c.model == model)
        return await readable_of(self._database, model, query, to_version, limit)

    async def change(self, ref: VersionRef, change: Callable[[Version], Version]) -> Version:
        async with self._database.writing() as connection:
            return await _change(connection, ref, change)

    async def complete(self, ref: VersionRef, change: Callable[[Version], Version], upload: str) -> Version:
        async with self._database.writing() as connection:
            changed = await _change(connection, ref, change)
            taken = await connection.execute(delete(uploads).where(uploads.c.key == upload, ~uploads.c.abandoned))
            if taken.rowcount != 1:
                raise Aborted(f"the upload {upload} took too long and was given up")
        return changed

    async def delete(self, ref: VersionRef, now: datetime) -> Version:
        async with self._database.writing() as connection:
            version = await version_of(connection, ref, locked=True)
            await _check_deletion(connection, ref)
            is_it = and_(versions.c.model == ref.model, versions.c.number == ref.number)
            await connection.execute(delete(versions).where(is_it))
            if version.artifact is not None:
                row = {"key": version.artifact.key, "create_time": now, "abandoned": True}
                await insert_if_absent(connection, uploads, row)
        return version

    async def waiting(self, now: datetime) -> Sequence[Version]:
        query = select(versions).where(versions.c.state == State.PENDING, is_free(versions, now))
        oldest_first = query.order_by(versions.c.create_time, versions.c.model, versions.c.number)
        return await self._database.readable(oldest_first, to_version)

    # Uploads

    async def add_problems(self, digest: str, fingerprints: Collection[str]) -> None:
        row = {"digest": digest, "fingerprints": sorted(fingerprints)}
        await self._database.insert_if_absent(training_sets, row)

    async def fingerprints(self, digests: Collection[str]) -> frozenset[str]:
        query = select(training_sets.c.fingerprints).where(training_sets.c.digest.in_(digests))
        return frozenset(one for row in await self._database.rows(query) for one in row.fingerprints)

    async def begin_upload(self, upload: str, now: datetime) -> None:
        async with self._database.writing() as connection:
            await connection.execute(insert(uploads).values(key=upload, create_time=now, abandoned=False))

    async def abandon_upload(self, upload: str) -> bool:
        async with self._database.writing() as connection:
            result = await connection.execute(update(uploads).where(uploads.c.key == upload).values(abandoned=True))
            return result.rowcount == 1

    async def end_upload(self, upload: str) -> None:
        async with self._database.writing() as connection:
            await connection.execute(delete(uploads).where(uploads.c.key == upload))

    async def uploads_before(self, time: datetime) -> Sequence[str]:
        return [row.key for row in await self._database.rows(select(uploads.c.key).where(uploads.c.create_time < time))]


class _MadeMeanwhile(Exception):
    """The same request, sent twice at once: the other one has made the version."""


async def _next_number(connection: AsyncConnection, model: str, now: datetime) -> int:
    """Makes the model where there is none."""
    row = {"name": model, "description": "", "create_time": now, "latest_version": 0}
    await insert_if_absent(connection, models, row)
    counted = update(models).where(models.c.name == model).values(latest_version=models.c.latest_version + 1)
    number: int | None = (await connection.execute(counted.returning(models.c.latest_version))).scalar_one_or_none()
    if number is None:
        raise Aborted(f"model {model} was deleted at the same time; send the request again")
    return number


async def _change(connection: AsyncConnection, ref: VersionRef, change: Callable[[Version], Version]) -> Version:
    changed = change(await version_of(connection, ref, locked=True))
    is_it = and_(versions.c.model == ref.model, versions.c.number == ref.number)
    await connection.execute(update(versions).where(is_it).values(version_row(changed)))
    return changed


async def _check_deletion(connection: AsyncConnection, ref: VersionRef) -> None:
    alias = select(aliases.c.alias).where(aliases.c.model == ref.model, aliases.c.version == ref.number)
    undecided = select(gates.c.id).where(
        gates.c.model == ref.model,
        gates.c.state == gate.State.PENDING,
        or_(gates.c.candidate_number == ref.number, gates.c.champion_number == ref.number),
    )
    promotions = select(alias_changes.c.position).where(
        alias_changes.c.model == ref.model,
        alias_changes.c.alias == CHAMPION,
        alias_changes.c.to_number == ref.number,
    )
    check_deletion(
        ref,
        alias=(await connection.execute(alias)).scalars().first(),
        gate_id=(await connection.execute(undecided)).scalars().first(),
        was_champion=(await connection.execute(promotions)).first() is not None,
    )
