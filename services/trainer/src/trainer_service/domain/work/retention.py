"""What runs that are over leave on disks, and is removed some time after their end."""

from datetime import datetime

from ratchet_kit.errors import NotFound
from ratchet_kit.work import surviving
from trainer_service.domain.inputs.ports import ModelFolders
from trainer_service.domain.run.ports import RunStore
from trainer_service.domain.run.run import RunId
from trainer_service.domain.run.sample import SampleStore


class Retention:
    def __init__(self, store: RunStore, folders: ModelFolders, samples: SampleStore) -> None:
        self._store = store
        self._folders = folders
        self._samples = samples

    async def remove_checkpoints(self, before: datetime) -> int:
        """Of runs that ended before then; how many had some."""
        removed = 0
        for id in await self._folders.with_leftovers():
            with surviving("remove checkpoints", run_id=id):
                if await self._ended(id, before):
                    await self._folders.tidy(id)
                    removed += 1
        return removed

    async def remove_exports(self, before: datetime) -> int:
        """The models that runs exported which ended before then, all but the best of each; how many."""
        removed = 0
        for id, checkpoint in await self._store.superseded(before):
            with surviving("remove exports", run_id=id, step=checkpoint.step):
                await self._folders.remove_export(id, checkpoint.uri)
                await self._store.delete_checkpoint(id, checkpoint.step)
                removed += 1
        return removed

    async def remove_samples(self, before: datetime) -> int:
        """Removes those of runs that ended before then. Returns how many had some."""
        removed = 0
        for id in await self._samples.with_samples():
            with surviving("remove samples", run_id=id):
                if await self._ended(id, before):
                    await self._samples.remove(id)
                    removed += 1
        return removed

    async def _ended(self, id: RunId, before: datetime) -> bool:
        """False for a folder of no run that is known here: it is somebody else's."""
        try:
            end = (await self._store.get(id)).end_time
        except NotFound:
            return False
        return end is not None and end < before
