"""The API keys in memory, so that a request asks no database who sent it."""

from gateway_service.domain.keys.key import ApiKey
from gateway_service.domain.keys.ports import KeyStore

LOOKS = 20
"""Between two refreshes, for keys that are not in memory: whoever makes keys up asks no database each time."""


class KnownKeys:
    """All keys, as they were at the last `refresh`."""

    def __init__(self, store: KeyStore) -> None:
        self._store = store
        self._by_digest: dict[str, ApiKey] = {}
        self._unknown: set[str] = set()
        """Looked for since the last refresh, in vain."""
        self._looks = 0
        self._revision = 0

    async def find(self, digest: str) -> ApiKey | None:
        """One that is not in memory may be new: the store is asked for it, LOOKS times at most; the next refresh brings
        it otherwise. Raises Unavailable then."""
        if digest in self._by_digest:
            return self._by_digest[digest]
        if digest in self._unknown or self._looks >= LOOKS:
            return None
        self._looks += 1
        found = await self._store.by_digest(digest)
        if found is None:
            self._unknown.add(digest)
        else:
            self._by_digest.setdefault(digest, found)
        return found

    async def refresh(self) -> None:
        """Reads what has changed. Raises Unavailable."""
        changed = await self._store.changed_since(self._revision)
        self._by_digest.update((key.digest, key) for key in changed.keys)
        self._revision = max(self._revision, changed.revision)
        self._unknown.clear()
        self._looks = 0
