"""ModelStore in memory, for tests: the same promises, for one process."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from ratchet_kit.errors import Aborted, AlreadyExists, NotFound
from ratchet_kit.idempotency import Request
from registry_service.domain.gates import Gate
from registry_service.domain.models import AliasChange, Model, RecordedChange, Version, VersionDraft


class MemoryModelStore:
    def __init__(self) -> None:
        self._models: dict[str, Model] = {}
        self._versions: dict[str, list[Version]] = {}
        self._uploads: dict[str, datetime] = {}
        self._abandoned: set[str] = set()
        self._history: list[RecordedChange] = []
        self._gates: dict[str, Gate] = {}
        self._version_requests: dict[str, tuple[Request, Version]] = {}
        self._gate_requests: dict[str, tuple[Request, Gate]] = {}

    async def create_model(self, model: Model) -> Model:
        if model.name in self._models:
            raise AlreadyExists(f"model {model.name} exists")
        self._models[model.name] = model
        self._versions[model.name] = []
        return model

    async def get_model(self, name: str) -> Model:
        if name not in self._models:
            raise NotFound(f"there is no model {name!r}")
        return self._models[name]

    async def list_models(self, limit: int, after: str | None) -> Sequence[Model]:
        return [self._models[name] for name in sorted(self._models) if after is None or name > after][:limit]

    async def begin_upload(self, key: str, now: datetime) -> None:
        self._uploads[key] = now

    async def abandon_upload(self, key: str) -> bool:
        if key in self._uploads:
            self._abandoned.add(key)
        return key in self._uploads

    async def end_upload(self, key: str) -> None:
        self._uploads.pop(key, None)
        self._abandoned.discard(key)

    async def uploads_before(self, time: datetime) -> Sequence[str]:
        return [key for key, begun in self._uploads.items() if begun < time]

    async def add_version(self, draft: VersionDraft, upload: str, request: Request) -> Version:
        if upload not in self._uploads or upload in self._abandoned:
            raise Aborted(f"the upload {upload} took too long and was given up; send the request again")
        if request.id in self._version_requests:
            raise AlreadyExists(f"a version was made under request {request.id} at the same time")
        if draft.model not in self._models:
            await self.create_model(Model(draft.model, "", draft.create_time))
        version = draft.numbered(len(self._versions[draft.model]) + 1)
        self._versions[draft.model].append(version)
        self._models[draft.model] = replace(self._models[draft.model], latest_version=version.number)
        self._version_requests[request.id] = (request, version)
        del self._uploads[upload]
        return version

    async def version_of_request(self, request: Request) -> Version | None:
        if request.id not in self._version_requests:
            return None
        first, version = self._version_requests[request.id]
        request.check_same(first.fingerprint, "version")
        return version

    async def get_version(self, model: str, number: int) -> Version:
        await self.get_model(model)
        for version in self._versions[model]:
            if version.number == number:
                return version
        raise NotFound(f"model {model} has no version {number}")

    async def list_versions(self, model: str, limit: int, after: int | None) -> Sequence[Version]:
        await self.get_model(model)
        return [version for version in reversed(self._versions[model]) if after is None or version.number < after][
            :limit
        ]

    async def move_alias(self, change: AliasChange) -> Model:
        model = await self.get_model(change.model)
        if model.aliases.get(change.alias, 0) != change.from_version:
            raise Aborted(f"alias {change.alias} of {change.model} was moved by somebody else at the same time")
        moved = replace(model, aliases={**model.aliases, change.alias: change.to_version})
        self._models[change.model] = moved
        self._history.append(RecordedChange(len(self._history) + 1, change))
        return moved

    async def past_versions(self, model: str, alias: str) -> frozenset[int]:
        changes = [entry.change for entry in self._history]
        return frozenset(change.to_version for change in changes if (change.model, change.alias) == (model, alias))

    async def list_alias_history(
        self, model: str, alias: str | None, limit: int, after: int | None
    ) -> Sequence[RecordedChange]:
        await self.get_model(model)
        return [
            entry
            for entry in reversed(self._history)
            if entry.change.model == model
            and alias in (None, entry.change.alias)
            and (after is None or entry.position < after)
        ][:limit]

    async def add_gate(self, gate: Gate, request: Request) -> Gate:
        existing = await self.gate_of_request(request)
        if existing is not None:
            return existing
        self._gates[gate.id] = gate
        self._gate_requests[request.id] = (request, gate)
        return gate

    async def gate_of_request(self, request: Request) -> Gate | None:
        if request.id not in self._gate_requests:
            return None
        first, gate = self._gate_requests[request.id]
        request.check_same(first.fingerprint, "gate")
        return gate

    async def get_gate(self, id: str) -> Gate:
        if id not in self._gates:
            raise NotFound(f"there is no gate {id}")
        return self._gates[id]

    async def list_gates(self, model: str, limit: int, after: str | None) -> Sequence[Gate]:
        await self.get_model(model)
        ids = sorted((id for id, gate in self._gates.items() if gate.model == model), reverse=True)
        return [self._gates[id] for id in ids if after is None or id < after][:limit]
