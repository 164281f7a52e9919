"""SampleStore in the artifact store, and in the folders of runs for what is not there yet."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

from ratchet_kit.errors import NotFound
from ratchet_kit.storage import Folder
from trainer_service.domain.run.run import RunId
from trainer_service.domain.run.sample import Sample, Wanted
from trainer_service.job.run.record import SAMPLES
from trainer_service.job.samples import sample_files


class FsspecSamples:
    def __init__(self, runs_folder: Path, store: Folder | None = None) -> None:
        """`store`: None when samples are kept in the folders of the runs."""
        self._runs_folder = runs_folder
        self._store = store

    async def steps(self, id: RunId) -> Sequence[int]:
        def steps() -> set[int]:
            names = (name for folder in self._folders(id) for name in folder.names())
            return {step for name in names if (step := sample_files.step_of(name)) is not None}

        return list(await asyncio.to_thread(steps))

    async def of_step(self, id: RunId, step: int, wanted: Wanted, *, records: bool = False) -> Sequence[Sample]:
        """Raises DataLoss for a file that cannot be read."""
        return await asyncio.to_thread(self._of_step, id, step, wanted, records)

    async def with_samples(self) -> Sequence[RunId]:
        def runs() -> set[str]:
            local = {folder.parent.name for folder in self._runs_folder.glob(f"*/{SAMPLES}")}
            return local | set(self._store.names() if self._store else [])

        return [RunId(one) for one in sorted(await asyncio.to_thread(runs))]

    async def remove(self, id: RunId) -> None:
        for folder in self._folders(id):
            await asyncio.to_thread(folder.delete)

    def _folders(self, id: RunId) -> Iterator[Folder]:
        """A job writes to the first, from where it moves what it has written to the other."""
        yield Folder(str(self._runs_folder / id / SAMPLES))
        if self._store is not None:
            yield self._store.child(id)

    def _of_step(self, id: RunId, step: int, wanted: Wanted, records: bool) -> Sequence[Sample]:
        name = sample_files.name_of(step)
        for folder in self._folders(id):
            try:
                with folder.opened(name) as file:
                    return sample_files.read(file, wanted, records=records)
            except NotFound:
                continue
        return []
