"""The stores in memory, for tests: the same promises, for one process."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from ratchet_kit.errors import Aborted, AlreadyExists, NotFound
from ratchet_kit.idempotency import Made, Request
from ratchet_kit.names import CHAMPION, DatasetRef, VersionRef, suggestion
from registry_service.domain.dataset import Dataset
from registry_service.domain.finding import Finding
from registry_service.domain.gate import Gate
from registry_service.domain.model import AliasChange, Model, RecordedChange
from registry_service.domain.ports import Stores, VersionFilter
from registry_service.domain.version import State, Version, VersionSpec, check_deletion

from .memory_rewards import MemoryRewardStore


@dataclass(slots=True)  # mutable, as a database is
class _Tables:
    """What the three here share."""

    models: dict[str, Model] = field(default_factory=dict)
    versions: dict[VersionRef, Version] = field(default_factory=dict)
    uploads: dict[str, datetime] = field(default_factory=dict)
    abandoned: set[str] = field(default_factory=set)
    history: list[RecordedChange] = field(default_factory=list)
    gates: dict[str, Gate] = field(default_factory=dict)
    training_sets: dict[str, frozenset[str]] = field(default_factory=dict)

    def model(self, name: str) -> Model:
        if name not in self.models:
            raise NotFound(f"there is no model {name!r}{suggestion(name, self.models)}")
        return self.models[name]

    def version(self, ref: VersionRef) -> Version:
        self.model(ref.model)
        if ref not in self.versions:
            raise NotFound(f"model {ref.model} has no version {ref.number}")
        return self.versions[ref]


def memory_stores() -> Stores:
    tables = _Tables()
    return Stores(
        MemoryModelStore(tables),
        MemoryVersionStore(tables),
        MemoryGateStore(tables),
        MemoryRewardStore(),
        _NoDatasets(),
        _NoFindings(),
    )


class _NoDatasets:
    """Data sets are tested on SQLite."""

    async def waiting(self, now: datetime) -> Sequence[Dataset]:
        return ()

    async def uploading_before(self, time: datetime) -> Sequence[DatasetRef]:
        return ()


class _NoFindings:
    """Findings, too."""

    async def accepted(self, digest: str) -> Sequence[Finding]:
        return ()


class MemoryModelStore:
    def __init__(self, tables: _Tables) -> None:
        self._tables = tables
        self._made: Made[str] = Made("model")

    async def create(self, model: Model, request: Request) -> Model:
        if made := await self.find(request):
            return made
        if model.name in self._tables.models:
            raise AlreadyExists(f"model {model.name} exists")
        self._tables.models[model.name] = model
        self._made.add(request, model.name)
        return model

    async def find(self, request: Request) -> Model | None:
        name = self._made.find(request)
        return None if name is None else self._tables.model(name)

    async def get(self, name: str) -> Model:
        failed = [ref for ref, one in self._tables.versions.items() if ref.model == name and one.state is State.FAILED]
        return replace(self._tables.model(name), failed_versions=len(failed))

    async def page(self, limit: int, after: str | None) -> Sequence[Model]:
        names = [name for name in sorted(self._tables.models) if after is None or name > after]
        return [await self.get(name) for name in names[:limit]]

    async def delete(self, name: str) -> None:
        tables = self._tables
        tables.model(name).check_deletable()
        del tables.models[name]
        self._made.remove({name})

    async def move_alias(self, change: AliasChange) -> Model:
        model = self._tables.model(change.model)
        self._tables.version(VersionRef(change.model, change.to_number)).check_ready()
        if model.aliases.get(change.alias, 0) != change.from_number:
            raise Aborted(f"alias {change.alias} of {change.model} was moved by somebody else at the same time")
        moved = replace(model, aliases={**model.aliases, change.alias: change.to_number})
        self._tables.models[change.model] = moved
        self._tables.history.append(RecordedChange(len(self._tables.history) + 1, change))
        return moved

    async def history(
        self, model: str, alias: str | None, limit: int | None, after: int | None
    ) -> Sequence[RecordedChange]:
        self._tables.model(model)
        return [
            entry
            for entry in reversed(self._tables.history)
            if entry.change.model == model
            and alias in (None, entry.change.alias)
            and (after is None or entry.position < after)
        ][:limit]


class MemoryVersionStore:
    def __init__(self, tables: _Tables) -> None:
        self._tables = tables
        self._made: Made[VersionRef] = Made("version")

    async def create(self, spec: VersionSpec, now: datetime, request: Request) -> Version:
        if made := await self.find(request):
            return made
        model = self._tables.models.get(spec.model) or Model(spec.model, "", now)
        version = Version(VersionRef(spec.model, model.latest_version + 1), spec, now)
        self._tables.models[spec.model] = replace(model, latest_version=version.ref.number)
        self._tables.versions[version.ref] = version
        self._made.add(request, version.ref)
        return version

    async def find(self, request: Request) -> Version | None:
        ref = self._made.find(request)
        return None if ref is None else self._tables.version(ref)

    async def get(self, ref: VersionRef) -> Version:
        return self._tables.version(ref)

    async def page(
        self, model: str | None, limit: int, after: Sequence[Any] | None, only: VersionFilter = VersionFilter()
    ) -> Sequence[Version]:
        if model is not None:
            self._tables.model(model)

        def place(ref: VersionRef) -> tuple[str, int]:
            return ref.model, -ref.number

        start = ("", 0) if after is None else (after[0], -after[1])
        found = [self._tables.versions[ref] for ref in sorted(self._tables.versions, key=place) if place(ref) > start]
        return [
            one
            for one in found
            if model in (None, one.ref.model)
            and only.state in (None, one.state)
            and (only.after_time is None or one.create_time >= only.after_time)
        ][:limit]

    async def change(self, ref: VersionRef, change: Callable[[Version], Version]) -> Version:
        self._tables.versions[ref] = changed = change(self._tables.version(ref))
        return changed

    async def complete(self, ref: VersionRef, change: Callable[[Version], Version], upload: str) -> Version:
        changed = change(self._tables.version(ref))
        if upload not in self._tables.uploads or upload in self._tables.abandoned:
            raise Aborted(f"the upload {upload} took too long and was given up")
        del self._tables.uploads[upload]
        self._tables.versions[ref] = changed
        return changed

    async def delete(self, ref: VersionRef, now: datetime) -> Version:
        version = self._tables.version(ref)
        aliases = self._tables.model(ref.model).aliases
        undecided = [gate for gate in self._tables.gates.values() if not gate.state.is_final]
        champions = [entry.change for entry in self._tables.history if entry.change.alias == CHAMPION]
        check_deletion(
            ref,
            alias=next((alias for alias, number in aliases.items() if number == ref.number), None),
            gate_id=next((gate.id for gate in undecided if ref in (gate.spec.candidate, gate.champion)), None),
            was_champion=any((change.model, change.to_number) == (ref.model, ref.number) for change in champions),
        )
        del self._tables.versions[ref]
        self._made.remove({ref})
        if version.artifact is not None:
            self._tables.uploads[version.artifact.key] = now
            self._tables.abandoned.add(version.artifact.key)
        return version

    async def waiting(self, now: datetime) -> Sequence[Version]:
        versions = self._tables.versions.values()
        return [version for version in versions if not version.state.is_final and version.hold.is_free(now)]

    async def add_problems(self, digest: str, fingerprints: Collection[str]) -> None:
        self._tables.training_sets.setdefault(digest, frozenset(fingerprints))

    async def fingerprints(self, digests: Collection[str]) -> frozenset[str]:
        return frozenset[str]().union(*(self._tables.training_sets.get(digest, ()) for digest in digests))

    async def begin_upload(self, upload: str, now: datetime) -> None:
        self._tables.uploads[upload] = now

    async def abandon_upload(self, upload: str) -> bool:
        if upload in self._tables.uploads:
            self._tables.abandoned.add(upload)
        return upload in self._tables.uploads

    async def end_upload(self, upload: str) -> None:
        self._tables.uploads.pop(upload, None)
        self._tables.abandoned.discard(upload)

    async def uploads_before(self, time: datetime) -> Sequence[str]:
        return [upload for upload, begun in self._tables.uploads.items() if begun < time]


class MemoryGateStore:
    def __init__(self, tables: _Tables) -> None:
        self._tables = tables
        self._made: Made[str] = Made("gate")

    async def create(self, gate: Gate, request: Request) -> Gate:
        for ref in (gate.spec.candidate, gate.champion):
            self._tables.version(ref).check_ready()
        if made := await self.find(request):
            return made
        self._tables.gates[gate.id] = gate
        self._made.add(request, gate.id)
        return gate

    async def find(self, request: Request) -> Gate | None:
        id = self._made.find(request)
        return None if id is None else await self.get(id)

    async def get(self, id: str) -> Gate:
        if id not in self._tables.gates:
            raise NotFound(f"there is no gate {id}")
        return self._tables.gates[id]

    async def page(self, model: str, limit: int, after: str | None) -> Sequence[Gate]:
        self._tables.model(model)
        gates = sorted(self._tables.gates.items(), reverse=True)
        return [gate for id, gate in gates if gate.champion.model == model and (after is None or id < after)][:limit]

    async def change(self, id: str, change: Callable[[Gate], Gate]) -> Gate:
        self._tables.gates[id] = changed = change(await self.get(id))
        return changed

    async def waiting(self, now: datetime) -> Sequence[Gate]:
        return [gate for gate in self._tables.gates.values() if not gate.state.is_final and gate.hold.is_free(now)]
