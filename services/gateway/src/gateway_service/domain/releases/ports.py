"""Where releases are stored."""

from collections.abc import Sequence
from typing import Protocol

from gateway_service.domain.releases.release import Release


class ReleaseStore(Protocol):
    """Stored releases. Every method raises Unavailable when the store cannot be reached."""

    async def add(self, release: Release) -> None:
        """Raises AlreadyExists when its request id is taken, FailedPrecondition when its model has an active one."""
        ...

    async def get(self, release_id: str) -> Release:
        """Raises NotFound."""
        ...

    async def by_request(self, request_id: str) -> Release | None: ...

    async def active(self, model: str) -> Release | None:
        """The release under way of a model: at most one."""
        ...

    async def unfinished(self) -> Sequence[Release]:
        """Those with work left: active ones, and ended ones whose loser is still loaded."""
        ...

    async def page(self, model: str, limit: int, after: str | None) -> Sequence[Release]:
        """Up to `limit` releases older than the release `after`, newest first; of all models when `model` is empty."""
        ...

    async def save(self, release: Release) -> Release:
        """Stores it and returns it with its new revision. Raises Aborted unless the stored revision is its own."""
        ...
