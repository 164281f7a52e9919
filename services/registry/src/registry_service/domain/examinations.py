"""The work on data sets: their files are read, checked, and kept by their digest."""

from collections.abc import Sequence
from datetime import timedelta

from ratchet_kit.errors import Aborted, RatchetError, Unavailable
from ratchet_kit.logs import get_logger
from ratchet_kit.names import DatasetRef
from ratchet_kit.times import Clock
from ratchet_kit.work import Waiting, surviving
from ratchet_kit.worker import HeldWork
from registry_service.domain.dataset import Dataset
from registry_service.domain.ports import DatasetFiles, DatasetStore

log = get_logger(__name__)


class Examinations(HeldWork[Dataset]):
    """Examines one data set after another. Two workers that examine the same write the same bytes."""

    kind = "dataset"

    def __init__(self, store: DatasetStore, files: DatasetFiles, owner: str, clock: Clock, lease: timedelta) -> None:
        super().__init__(lambda id, change: store.change(DatasetRef.parse(id), change), owner, clock, lease)
        self._store = store
        self._files = files

    async def do(self, claim: Dataset) -> None:
        try:
            is_benchmark = bool(claim.card.edition)
            contents = {
                name: await self._files.examine(claim.id, name, split.upload, as_rows=is_benchmark)
                for name, split in claim.splits.items()
            }
        except (Unavailable, Aborted):
            raise
        except RatchetError as error:
            await self.fail(claim, error)
            log.warning("dataset.failed", reason=error.message)
        else:
            ready = await self._store.change(claim.ref, lambda it: it.complete(self.owner, contents, self.clock.now()))
            log.info("dataset.ready", rows=sum(content.rows for content in contents.values()), id=ready.id)
        with surviving("discard an upload", dataset=claim.id):
            await self._files.discard(claim.id)

    async def waiting(self) -> Sequence[Waiting]:
        return [Waiting(it.id, it.create_time) for it in await self._store.waiting(self.clock.now())]
