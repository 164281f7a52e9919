"""The API keys in memory, so that a request asks no database who sent it."""

from gateway_service.domain.keys.key import ApiKey
from gateway_service.domain.keys.ports import KeyStore


class KnownKeys:
    """All keys, as they were at the last `refresh`."""

    def __init__(self, store: KeyStore) -> None:
        self._store = store
        self._by_digest: dict[str, ApiKey] = {}
        self._revision = 0

    async def find(self, digest: str) -> ApiKey | None:
        """One that is not in memory may be new: the store is asked for it. Raises Unavailable then."""
        return self._by_digest.get(digest) or await self._store.by_digest(digest)

    async def refresh(self) -> None:
        """Reads what has changed. Raises Unavailable."""
        changed = await self._store.changed_since(self._revision)
        self._by_digest.update((key.digest, key) for key in changed.keys)
        self._revision = max(self._revision, changed.revision)
