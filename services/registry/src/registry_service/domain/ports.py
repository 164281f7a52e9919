"""What the registry needs from outside."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from ratchet_kit.idempotency import Request
from registry_service.domain.gates import Comparison, Evaluation, Gate
from registry_service.domain.models import (
    AliasChange,
    Artifact,
    Model,
    RecordedChange,
    Version,
    VersionDraft,
)


class ModelStore(Protocol):
    """Models, versions, aliases and gates. Every method is one transaction.

    Lists are newest first (models: by name); `after` is the key of the last item already seen.
    Any method raises Unavailable when the database cannot be reached.
    """

    async def create_model(self, model: Model) -> Model:
        """Raises AlreadyExists."""
        ...

    async def get_model(self, name: str) -> Model:
        """Raises NotFound."""
        ...

    async def list_models(self, limit: int, after: str | None) -> Sequence[Model]: ...

    async def begin_upload(self, key: str, now: datetime) -> None:
        """Notes that an artifact is about to be copied to `key`, so that it is found when nobody finishes."""
        ...

    async def abandon_upload(self, key: str) -> bool:
        """Makes sure that the upload never becomes a version. False when it is one already, or is not known."""
        ...

    async def end_upload(self, key: str) -> None:
        """Forgets an abandoned upload whose files are gone."""
        ...

    async def uploads_before(self, time: datetime) -> Sequence[str]:
        """Keys of the uploads that began before `time` and did not become a version."""
        ...

    async def add_version(self, draft: VersionDraft, upload: str, request: Request) -> Version:
        """Gives the draft the model's next number, makes the model if there is none, and ends the upload.

        Raises AlreadyExists when another version was made under the request, Aborted when the upload was abandoned.
        """
        ...

    async def version_of_request(self, request: Request) -> Version | None:
        """The version made under the request. Raises AlreadyExists when another one was asked for under its id."""
        ...

    async def get_version(self, model: str, number: int) -> Version:
        """Raises NotFound, saying whether the model or the version is missing."""
        ...

    async def list_versions(self, model: str, limit: int, after: int | None) -> Sequence[Version]:
        """Raises NotFound when there is no such model."""
        ...

    async def move_alias(self, change: AliasChange) -> Model:
        """Points the alias at `change.to_version` and adds the change to its history.

        Raises Aborted when the alias is no longer at `change.from_version` (0: does not exist).
        """
        ...

    async def past_versions(self, model: str, alias: str) -> frozenset[int]:
        """Every version that the alias ever pointed at."""
        ...

    async def list_alias_history(
        self, model: str, alias: str | None, limit: int, after: int | None
    ) -> Sequence[RecordedChange]:
        """Changes of one alias, or of all (None). Raises NotFound when there is no such model."""
        ...

    async def add_gate(self, gate: Gate, request: Request) -> Gate:
        """Stores the gate, or returns the one that was stored under the request."""
        ...

    async def gate_of_request(self, request: Request) -> Gate | None:
        """The gate made under the request. Raises AlreadyExists when another one was asked for under its id."""
        ...

    async def get_gate(self, id: str) -> Gate:
        """Raises NotFound."""
        ...

    async def list_gates(self, model: str, limit: int, after: str | None) -> Sequence[Gate]:
        """Raises NotFound when there is no such model."""
        ...


class ArtifactStore(Protocol):
    """Where the files of versions lie."""

    async def ingest(self, source_uri: str, key: str) -> Artifact:
        """Copies a model folder to `key` and returns it with its digests; all of it or nothing.

        Raises NotFound when there is no such folder, InvalidArgument when it does not hold a model (config.json and
        readable *.safetensors), ResourceExhausted when the store is full, Unavailable when it cannot be reached.
        """
        ...

    async def delete(self, key: str) -> None:
        """Removes whatever lies at `key`, half copied or whole. No error when there is nothing."""
        ...


class EvaluationSource(Protocol):
    """The evidence that gates decide on: finished evaluations, from eval-service."""

    async def get(self, id: str) -> Evaluation:
        """Raises NotFound, FailedPrecondition when the evaluation has not succeeded, Unavailable."""
        ...

    async def compare(self, baseline_id: str, candidate_id: str) -> Comparison:
        """Raises NotFound, FailedPrecondition when the two cannot be compared, Unavailable."""
        ...
