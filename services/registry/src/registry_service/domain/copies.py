"""The work on versions: their artifacts are copied, and become READY."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

from ratchet_kit.errors import Aborted, RatchetError, Unavailable
from ratchet_kit.ids import new_id
from ratchet_kit.logs import get_logger
from ratchet_kit.names import VersionRef
from ratchet_kit.times import Clock
from ratchet_kit.work import Waiting, surviving
from ratchet_kit.worker import HeldWork
from registry_service.domain.ports import ArtifactStore, Events, VersionStore
from registry_service.domain.version import Version

log = get_logger(__name__)


class Uploads:
    """Files that are written before they are a version's. A worker that dies on the way leaves a note of them."""

    def __init__(self, store: VersionStore, artifacts: ArtifactStore) -> None:
        self._store = store
        self._artifacts = artifacts

    def check(self, source_uri: str, field: str) -> str:
        """See `ArtifactStore.check`."""
        return self._artifacts.check(source_uri, field)

    async def discard(self, upload: str) -> None:
        """Removes the files, unless they are a version's."""
        # The store goes first: whatever went wrong, the files of a version that was completed stay. The note goes last:
        # when the files cannot be removed now, the next sweep tries again.
        if await self.abandon(upload):
            await self._store.end_upload(upload)

    async def abandon(self, upload: str) -> bool:
        """The same while they may still be written: what comes after this is found by the sweep."""
        if not await self._store.abandon_upload(upload):
            return False
        await self._artifacts.delete(upload)
        return True

    async def sweep(self, before: datetime) -> int:
        """Discards the uploads that began before that time, and says of how many that went well: one that cannot be
        removed now is tried again at the next sweep, and holds up no other."""
        uploads = await self._store.uploads_before(before)
        discarded = 0
        for upload in uploads:
            with surviving("discard upload", upload=upload):
                await self.discard(upload)
                discarded += 1
        return discarded


class Copies(HeldWork[Version]):
    """Copies the artifact of one version after another. Two workers that copy the same never write the same files."""

    kind = "version"

    def __init__(
        self,
        store: VersionStore,
        artifacts: ArtifactStore,
        events: Events,
        owner: str,
        clock: Clock,
        lease: timedelta,
    ) -> None:
        super().__init__(lambda id, change: store.change(VersionRef.parse(id), change), owner, clock, lease)
        self._store = store
        self._artifacts = artifacts
        self._events = events
        self._uploads = Uploads(store, artifacts)

    async def do(self, claim: Version) -> None:
        upload = f"{claim.ref.model}/{new_id('art')}"
        await self._store.begin_upload(upload, self.clock.now())
        try:
            artifact = await self._artifacts.ingest(claim.spec.source_uri, upload)
            ready = await self._store.complete(
                claim.ref, lambda version: version.complete(self.owner, artifact, self.clock.now()), upload
            )
            await self._events.ended(ready)
            log.info("version.ready", policy_id=ready.policy_id, size_bytes=artifact.size_bytes)
        except asyncio.CancelledError:
            await self._uploads.abandon(upload)
            raise
        except (Unavailable, Aborted):
            await self._uploads.discard(upload)
            raise
        except RatchetError as error:
            await self._uploads.discard(upload)
            await self.fail(claim, error)
            log.warning("version.failed", reason=error.message)

    async def fail(self, claim: Version, error: RatchetError) -> None:
        await super().fail(claim, error)
        await self._events.ended(await self._store.get(claim.ref))

    async def waiting(self) -> Sequence[Waiting]:
        return [Waiting(version.id, version.create_time) for version in await self._store.waiting(self.clock.now())]
