"""DatasetStore on SQLite and PostgreSQL."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from ratchet_kit.errors import Failure
from ratchet_kit.idempotency import Request
from ratchet_kit.names import DatasetRef
from ratchet_kit.sql import Database, hold_of, hold_row, insert_if_absent, is_free
from registry_service.adapters.sql.tables import dataset_findings, dataset_names, dataset_uses, datasets
from registry_service.domain.dataset import Card, Content, Dataset, DatasetSpec, Split, State, Upload, not_there


class SqlDatasetStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, spec: DatasetSpec, actor: str, now: datetime, request: Request) -> Dataset:
        digest = _digest(spec.uploads)
        async with self._database.writing() as connection:
            # From here to the end of the transaction nobody else gives a number of this name.
            await insert_if_absent(connection, dataset_names, {"name": spec.name, "latest_number": 0})
            of_name = dataset_names.c.name == spec.name
            latest = select(dataset_names.c.latest_number).where(of_name).with_for_update()
            number = int((await connection.execute(latest)).scalar_one()) + 1
            same = select(datasets).where(
                datasets.c.name == spec.name,
                or_(
                    and_(datasets.c.digest == digest, datasets.c.state != State.FAILED),
                    datasets.c.request_id == request.key,
                ),
            )
            if (row := (await connection.execute(same.order_by(datasets.c.number.desc()))).first()) is not None:
                return _to_dataset(row)
            await connection.execute(update(dataset_names).where(of_name).values(latest_number=number))
            splits = {name: Split(upload) for name, upload in spec.uploads.items()}
            made = Dataset(spec.name, number, spec.card, splits, now, actor)
            await insert_if_absent(connection, datasets, _row(made) | {"digest": digest} | request.columns)
        return made

    async def find(self, request: Request) -> Dataset | None:
        row = await self._database.made_by(request, select(datasets), "data set")
        return None if row is None else _to_dataset(row)

    async def get(self, ref: DatasetRef) -> Dataset:
        async with self._database.reading() as connection:
            return await _dataset_of(connection, ref)

    async def page(self, name: str | None, limit: int, after: Sequence[Any] | None) -> Sequence[Dataset]:
        query = select(datasets).order_by(datasets.c.name, datasets.c.number.desc())
        if name is not None:
            query = query.where(datasets.c.name == name)
        if after is not None:
            last, number = after
            behind = and_(datasets.c.name == last, datasets.c.number < number)
            query = query.where(or_(datasets.c.name > last, behind))
        found = await self._database.readable(query, _to_dataset, limit)
        if name is not None and not found and after is None:
            async with self._database.reading() as connection:
                raise await _missing(connection, DatasetRef(name))
        return found

    async def change(self, ref: DatasetRef, change: Callable[[Dataset], Dataset]) -> Dataset:
        async with self._database.writing() as connection:
            changed = change(await _dataset_of(connection, ref, locked=True))
            await connection.execute(update(datasets).where(_is(changed.ref)).values(_row(changed)))
        return changed

    async def waiting(self, now: datetime) -> Sequence[Dataset]:
        query = select(datasets).where(datasets.c.state == State.EXAMINING, is_free(datasets, now))
        return await self._database.readable(query.order_by(datasets.c.create_time), _to_dataset)

    async def uploading_before(self, time: datetime) -> Sequence[DatasetRef]:
        query = select(datasets).where(datasets.c.state == State.UPLOADING, datasets.c.create_time < time)
        return [found.ref for found in await self._database.readable(query, _to_dataset)]

    async def use(self, ref: DatasetRef, user: str, now: datetime) -> None:
        async with self._database.writing() as connection:
            found = await _dataset_of(connection, ref, locked=True)
            row = {"name": found.name, "number": found.number, "user": user, "create_time": now}
            if await insert_if_absent(connection, dataset_uses, row):
                values = {"uses": datasets.c.uses + 1, "last_user": user}
                await connection.execute(update(datasets).where(_is(found.ref)).values(values))

    async def delete(self, ref: DatasetRef, *, force: bool) -> tuple[Dataset, Sequence[str]]:
        async with self._database.writing() as connection:
            found = await _dataset_of(connection, ref, locked=True)
            found.check_deletable(force=force)
            of_it = and_(dataset_uses.c.name == found.name, dataset_uses.c.number == found.number)
            await connection.execute(delete(dataset_uses).where(of_it))
            of_it = and_(dataset_findings.c.name == found.name, dataset_findings.c.number == found.number)
            await connection.execute(delete(dataset_findings).where(of_it, dataset_findings.c.decision_id.is_(None)))
            await connection.execute(delete(datasets).where(_is(found.ref)))
            left = (await connection.execute(select(datasets.c.splits))).scalars()
            kept = {split["content"]["sha256"] for splits in left for split in splits.values() if split["content"]}
            own = {split.content.sha256 for split in found.splits.values() if split.content}
        return found, sorted(own - kept)


def _digest(uploads: Mapping[str, Upload]) -> str:
    lines = "".join(f"{name} {upload.sha256}\n" for name, upload in sorted(uploads.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def _is(ref: DatasetRef) -> ColumnElement[bool]:
    return and_(datasets.c.name == ref.name, datasets.c.number == ref.number)


async def _dataset_of(connection: AsyncConnection, ref: DatasetRef, *, locked: bool = False) -> Dataset:
    """Nobody else changes it (`locked`) before the end of the transaction. Raises NotFound."""
    query = select(datasets).where(datasets.c.name == ref.name).order_by(datasets.c.number.desc()).limit(1)
    wanted = datasets.c.state == State.READY if ref.number is None else datasets.c.number == ref.number
    query = query.where(wanted)
    row = (await connection.execute(query.with_for_update() if locked else query)).first()
    if row is None:
        raise await _missing(connection, ref)
    return _to_dataset(row)


async def _missing(connection: AsyncConnection, ref: DatasetRef) -> Exception:
    of_name = select(datasets.c.number).where(datasets.c.name == ref.name).order_by(datasets.c.number)
    names = select(datasets.c.name).distinct().order_by(datasets.c.name)
    numbers = (await connection.execute(of_name)).scalars().all()
    return not_there(ref, numbers, (await connection.execute(names)).scalars().all())


def _row(dataset: Dataset) -> dict[str, Any]:
    failure = dataset.failure
    return {
        "name": dataset.name,
        "number": dataset.number,
        "card": asdict(dataset.card),
        "splits": {name: asdict(split) for name, split in dataset.splits.items()},
        "create_time": dataset.create_time,
        "actor": dataset.actor,
        "state": dataset.state,
        "failure_code": failure.code if failure else None,
        "failure_message": failure.message if failure else None,
        "end_time": dataset.end_time,
        "uses": dataset.uses,
        "last_user": dataset.last_user,
        **hold_row(dataset.hold),
    }


def _to_dataset(row: Row[Any]) -> Dataset:
    return Dataset(
        name=row.name,
        number=row.number,
        card=Card(**row.card),
        splits={name: _to_split(split) for name, split in row.splits.items()},
        create_time=row.create_time,
        actor=row.actor,
        state=State(row.state),
        failure=Failure(row.failure_code, row.failure_message) if row.failure_code else None,
        end_time=row.end_time,
        uses=row.uses,
        last_user=row.last_user,
        hold=hold_of(row),
    )


def _to_split(split: Mapping[str, Any]) -> Split:
    content = split["content"]
    kept = Content(**content | {"notices": tuple(content["notices"])}) if content else None
    return Split(Upload(**split["upload"]), split["received"], kept)
