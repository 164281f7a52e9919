"""Where API keys are stored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway_service.domain.keys.key import ApiKey
from ratchet_kit.idempotency import Request


@dataclass(frozen=True, slots=True)
class ChangedKeys:
    keys: Sequence[ApiKey]
    revision: int
    """Of all keys, when they were read: it grows with each change."""


class KeyStore(Protocol):
    """Stored API keys."""

    async def create(self, key: ApiKey, request: Request) -> ApiKey:
        """Stores it, and returns what was stored first under the request.

        Raises AlreadyExists when its digest is taken or the request's id was used for another key.
        """
        ...

    async def get(self, key_id: str) -> ApiKey:
        """Raises NotFound."""
        ...

    async def changed_since(self, revision: int) -> "ChangedKeys":
        """Those that were made or changed after a revision of all keys; 0: every key. None is ever missed: who reads
        revision 7 has read each change up to it."""
        ...

    async def by_digest(self, digest: str) -> ApiKey | None: ...

    async def page(self, limit: int, after: str | None) -> Sequence[ApiKey]:
        """Up to `limit` keys older than the key `after`, newest first, revoked ones too."""
        ...

    async def change(self, key_id: str, change: Callable[[ApiKey], ApiKey]) -> ApiKey:
        """Stores what `change` makes of a key, and returns it; nobody else changes the key meanwhile. Raises NotFound,
        and what `change` raises."""
        ...
