"""Where API keys are stored."""

from collections.abc import Sequence
from typing import Protocol

from gateway_service.domain.keys.key import ApiKey


class KeyStore(Protocol):
    """Stored API keys."""

    async def add(self, key: ApiKey) -> None:
        """Raises AlreadyExists when its digest is taken."""
        ...

    async def get(self, key_id: str) -> ApiKey:
        """Raises NotFound."""
        ...

    async def by_digest(self, digest: str) -> ApiKey | None: ...

    async def list(self) -> Sequence[ApiKey]:
        """All, revoked ones too, oldest first."""
        ...

    async def save(self, key: ApiKey) -> None:
        """Raises NotFound."""
        ...
