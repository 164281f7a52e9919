"""The audit log: each change, and who asked for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from gateway_service.domain.keys.caller import caller
from ratchet_kit.ids import new_id
from ratchet_kit.pages import Page, fetch_page
from ratchet_kit.text import clip, storable
from ratchet_kit.times import Clock
from ratchet_kit.work import surviving

MAX_RESOURCE = 200
"""Bytes."""


@dataclass(frozen=True, slots=True)
class Entry:
    id: str
    create_time: datetime
    actor: str
    """The id of the key that asked for it; empty where keys are turned off."""
    actor_name: str
    method: str
    """The RPC, such as "ReleaseService.RollbackRelease"."""
    resource: str
    """Its id or name, such as "rel_01..." or "starter/3"; empty where it was refused before it had a name."""
    code: str
    """How it ended: OK, or gRPC's name of the error."""
    request_id: str


class AuditStore(Protocol):
    async def add(self, entry: Entry) -> None: ...

    async def page(self, actor: str, since: datetime | None, limit: int, after: str | None) -> Sequence[Entry]:
        """Up to `limit` entries older than the entry `after`, newest first; of a key and since a time where given."""
        ...


class AuditLog:
    """Keeps an entry of each change, for good."""

    def __init__(self, store: AuditStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def record(self, method: str, resource: str, code: str, request_id: str) -> None:
        """By the caller of the present call, who wrote `resource`. A store that is away costs the entry, and not the
        change."""
        key, named = caller(), clip(storable(resource), MAX_RESOURCE)
        with surviving("audit"):
            await self._store.add(
                Entry(new_id("aud"), self._clock.now(), key.id, key.name, method, named, code, request_id)
            )

    async def page(self, actor: str, since: datetime | None, page_size: int, page_token: str) -> Page[Entry]:
        """Newest first. Raises InvalidArgument for a page token that no list returned."""

        async def fetch(limit: int, after: str | None) -> Sequence[Entry]:
            return await self._store.page(actor, since, limit, after)

        return await fetch_page(fetch, lambda entry: entry.id, str, page_size, page_token)
