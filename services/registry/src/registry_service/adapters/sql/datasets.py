"""DatasetStore on SQLite and PostgreSQL."""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, delete, not_, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from ratchet_kit.errors import Aborted, Failure
from ratchet_kit.idempotency import Request
from ratchet_kit.names import DatasetRef
from ratchet_kit.sql import Database, hold_of, hold_row, insert_all_if_absent, insert_if_absent, is_free, upsert
from ratchet_problems.balance import Balance, Quantiles
from registry_service.adapters.sql.tables import (
    dataset_findings,
    dataset_names,
    dataset_units,
    dataset_uses,
    datasets,
    forgotten,
    gates,
)
from registry_service.domain.dataset import (
    Card,
    Check,
    Content,
    Dataset,
    DatasetSpec,
    Part,
    Progress,
    Split,
    State,
    Upload,
    not_there,
)
from registry_service.domain.ports import Delete
from registry_service.domain.reference_runs import ReferenceRuns

RELEASED_AT_ONCE = 20
"""Contents that are deleted while others wait."""


class SqlDatasetStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, spec: DatasetSpec, actor: str, now: datetime, request: Request) -> Dataset:
        async with self._database.writing() as connection:
            return await _next(connection, spec, actor, now, request)

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

    async def complete(
        self, ref: DatasetRef, change: Callable[[Dataset], Dataset], units: Mapping[str, datetime]
    ) -> Dataset:
        async with self._database.writing() as connection:
            await _forgetting(connection)
            changed = change(await _dataset_of(connection, ref, locked=True))
            if units:
                await _hold_units(connection, changed, units)
            await connection.execute(update(datasets).where(_is(changed.ref)).values(_row(changed)))
        return changed

    async def remake(
        self,
        spec: DatasetSpec,
        contents: Mapping[str, Content],
        units: Mapping[str, datetime],
        actor: str,
        now: datetime,
        request: Request,
    ) -> Dataset:
        async with self._database.writing() as connection:
            await _forgetting(connection)
            made = await _next(connection, spec, actor, now, request)
            if made.state is not State.UPLOADING:
                return made
            splits = {name: Split(spec.uploads[name], it.size_bytes, it) for name, it in contents.items()}
            made = replace(made, splits=splits, state=State.READY, end_time=now)
            await _hold_units(connection, made, units)
            await connection.execute(update(datasets).where(_is(made.ref)).values(_row(made)))
        return made

    async def forget(self, units: Mapping[str, datetime]) -> Sequence[Dataset]:
        found: dict[DatasetRef, Dataset] = {}
        async with self._database.writing() as connection:
            await _forgetting(connection)
            for unit, time in units.items():
                known = select(forgotten.c.forget_time).where(forgotten.c.unit == unit)
                before = (await connection.execute(known)).scalar_one_or_none()
                latest = max(time, before) if before else time
                await upsert(connection, forgotten, {"unit": unit, "forget_time": latest})
                held = select(dataset_units.c.name, dataset_units.c.number).where(
                    dataset_units.c.unit == unit, dataset_units.c.time <= latest
                )
                for name, number in (await connection.execute(held)).all():
                    dataset = await _dataset_of(connection, DatasetRef(name, number), locked=True)
                    if dataset.state is State.READY:
                        found[dataset.ref] = dataset.reexamine()
                        await connection.execute(
                            update(datasets).where(_is(dataset.ref)).values(_row(found[dataset.ref]))
                        )
        return list(found.values())

    async def forgotten(self) -> Mapping[str, datetime]:
        rows = await self._database.rows(select(forgotten).where(forgotten.c.unit != ""))
        return {row.unit: row.forget_time for row in rows}

    async def release(self, sha256s: Sequence[str], delete: Delete, but: DatasetRef | None = None) -> None:
        for start in range(0, len(sha256s), RELEASED_AT_ONCE):
            async with self._database.writing() as connection:
                await _forgetting(connection)
                for sha256 in sorted(set(sha256s[start : start + RELEASED_AT_ONCE]) - await _kept(connection, but)):
                    await delete(sha256)

    async def gated(self) -> Collection[DatasetRef]:
        used = dataset_uses.c
        by_gate = or_(used.user == gates.c.candidate_evaluation_id, used.user == gates.c.champion_evaluation_id)
        query = select(used.name, used.number).distinct().select_from(dataset_uses.join(gates, by_gate))
        return {DatasetRef(row.name, row.number) for row in await self._database.rows(query)}

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
            of_it = and_(dataset_units.c.name == found.name, dataset_units.c.number == found.number)
            await connection.execute(delete(dataset_units).where(of_it))
            await connection.execute(delete(datasets).where(_is(found.ref)))
            kept = await _kept(connection)
            own = {part.sha256 for split in found.splits.values() if split.content for part in split.content.kept}
        return found, sorted(own - kept)


async def _next(connection: AsyncConnection, spec: DatasetSpec, actor: str, now: datetime, request: Request) -> Dataset:
    """The next version, or the one that has the same files or the same request."""
    digest = _digest(spec.uploads)
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


async def _forgetting(connection: AsyncConnection) -> None:
    """Until the end of the transaction nobody else forgets, makes a version READY, or deletes contents."""
    await insert_if_absent(connection, forgotten, {"unit": "", "forget_time": datetime.fromtimestamp(0, UTC)})
    await connection.execute(select(forgotten.c.unit).where(forgotten.c.unit == "").with_for_update())


async def _hold_units(connection: AsyncConnection, dataset: Dataset, units: Mapping[str, datetime]) -> None:
    """Raises Aborted where one of them is forgotten. Who calls it holds `_forgetting`."""
    rows = [{"unit": unit, "name": dataset.name, "number": dataset.number, "time": it} for unit, it in units.items()]
    await insert_all_if_absent(connection, dataset_units, rows)
    of_it = and_(dataset_units.c.name == dataset.name, dataset_units.c.number == dataset.number)
    late = select(forgotten.c.unit).join(
        dataset_units, and_(dataset_units.c.unit == forgotten.c.unit, dataset_units.c.time <= forgotten.c.forget_time)
    )
    if (await connection.execute(late.where(of_it).limit(1))).first() is not None:
        raise Aborted(f"something in {dataset.ref} was forgotten at the same time")


def _digest(uploads: Mapping[str, Upload]) -> str:
    lines = "".join(f"{name} {upload.sha256}\n" for name, upload in sorted(uploads.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


async def _kept(connection: AsyncConnection, but: DatasetRef | None = None) -> set[str]:
    """The sha256 of the contents of all versions, or all but one."""
    query = select(datasets.c.splits)
    left = (await connection.execute(query.where(not_(_is(but))) if but else query)).scalars()
    contents = [split["content"] for splits in left for split in splits.values() if split["content"]]
    return {part["sha256"] for content in contents for part in content.get("parts") or [content]}


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
    kept = _to_content(split["content"]) if split["content"] else None
    progress = split.get("progress")
    seen = Progress(**progress | {"check": Check(progress["check"])}) if progress else None
    return Split(Upload(**split["upload"]), split["received"], kept, seen)


def _to_content(content: Mapping[str, Any]) -> Content:
    balance = Balance.from_json(content.get("balance"))
    runs, references = content.get("references"), None
    if runs:
        spread = {name: Quantiles.from_json(runs[name]) for name in ("cpu_time", "memory_bytes")}
        references = ReferenceRuns(**runs | spread)
    parts = tuple(Part(**part) for part in content.get("parts", ()))
    own = {"notices": tuple(content["notices"]), "balance": balance, "references": references, "parts": parts}
    return Content(**{**content, **own})
