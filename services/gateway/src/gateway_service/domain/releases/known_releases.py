"""The releases under way in memory, so that a request asks no database for the version that answers it."""

import asyncio
from collections.abc import Sequence

from gateway_service.domain.known_models import KnownModels
from gateway_service.domain.releases.ports import ReleaseStore
from gateway_service.domain.releases.release import Release
from ratchet_kit.idempotency import Request


class KnownReleases:
    """A ReleaseStore that has in memory what is under way: as of the last `refresh`, and of each change made here."""

    def __init__(self, store: ReleaseStore, models: KnownModels) -> None:
        self._store = store
        self._models = models
        self._present: dict[str, Release] = {}
        self._refreshing = asyncio.Lock()

    def present(self, model: str) -> Release | None:
        """The release under way of a model, from memory."""
        return self._present.get(model)

    async def refresh(self) -> None:
        """Reads releases and models again. Raises Unavailable.

        The models after the releases: a release that has ended well has set its model's champion before, so that no
        request falls back to the champion before that.
        """
        async with self._refreshing:
            active = await self._store.all_active()
            await self._models.refresh()
            self._present = {release.model: release for release in active}

    async def create(self, release: Release, request: Request) -> Release:
        created = await self._store.create(release, request)
        await self.refresh()
        return created

    async def save(self, release: Release) -> Release:
        saved = await self._store.save(release)
        await self.refresh()
        return saved

    async def find(self, request: Request) -> Release | None:
        return await self._store.find(request)

    async def get(self, release_id: str) -> Release:
        return await self._store.get(release_id)

    async def active(self, model: str) -> Release | None:
        return await self._store.active(model)

    async def all_active(self) -> Sequence[Release]:
        return await self._store.all_active()

    async def unfinished(self) -> Sequence[Release]:
        return await self._store.unfinished()

    async def page(self, model: str, limit: int, after: str | None) -> Sequence[Release]:
        return await self._store.page(model, limit, after)
