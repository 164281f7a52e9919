"""Where releases are stored."""

from collections.abc import Sequence
from typing import Protocol

from gateway_service.domain.releases.release import Release
from ratchet_kit.idempotency import Request


class ReleaseStore(Protocol):
    """Stored releases. Every method raises Unavailable when the store cannot be reached."""

    async def create(self, release: Release, request: Request) -> Release:
        """Stores it, and returns what was stored first under the request.

        Raises AlreadyExists when the request's id was used for another release, and what `UnderWay.check_release`
        raises: between that look and its end, nothing else of the model starts.
        """
        ...

    async def find(self, request: Request) -> Release | None:
        """The release that the request made. Raises AlreadyExists when its id was used for another release."""
        ...

    async def get(self, release_id: str) -> Release:
        """Raises NotFound."""
        ...

    async def active(self, model: str) -> Release | None:
        """The release under way of a model: at most one."""
        ...

    async def all_active(self) -> Sequence[Release]:
        """Releases under way, of all models."""
        ...

    async def unfinished(self) -> Sequence[Release]:
        """Releases with work left: active ones, and ended ones whose loser is still loaded."""
        ...

    async def page(self, model: str, limit: int, after: str | None) -> Sequence[Release]:
        """Up to `limit` releases older than the release `after`, newest first; of all models when `model` is empty."""
        ...

    async def save(self, release: Release) -> Release:
        """Stores it and returns it with its new revision; in the same transaction, webhooks are told of its end. Raises
        Aborted unless the stored revision is its own."""
        ...
