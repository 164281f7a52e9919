"""Samples of runs, for those who look at them."""

import asyncio
from collections.abc import Sequence

from ratchet_kit import pages
from ratchet_kit.errors import FailedPrecondition, NotFound
from ratchet_kit.pages import Page
from trainer_service.domain.run.ports import RunStore
from trainer_service.domain.run.run import RunId
from trainer_service.domain.run.sample import Sample, SampleId, SampleStore, Wanted

TOGETHER = 16
"""Steps that are read at once."""
MOST = 100
"""Samples of a page: each may have some 80 KiB of texts."""


class Samples:
    def __init__(self, runs: RunStore, store: SampleStore) -> None:
        self._runs = runs
        self._store = store

    async def page(self, id: RunId, wanted: Wanted, size: int, token: str) -> Page[Sample]:
        """The newest step first, and of a step the lowest reward. Raises NotFound, InvalidArgument, Unavailable."""
        await self._runs.get(id)

        async def fetch(limit: int, after: list[float] | None) -> Sequence[Sample]:
            there = await self._steps(id, wanted)
            steps = sorted((step for step in there if after is None or step <= -after[0]), reverse=True)
            found: list[Sample] = []
            for start in range(0, len(steps), TOGETHER):
                read = (self._store.of_step(id, step, wanted) for step in steps[start : start + TOGETHER])
                some = sorted((one for part in await asyncio.gather(*read) for one in part), key=lambda one: one.order)
                found += [one for one in some if after is None or one.order > tuple(after)]
                if len(found) >= limit:
                    break
            return found[:limit]

        return await pages.fetch_page(
            fetch, lambda one: list(one.order), (int, float, int, int), min(size, MOST), token
        )

    async def get(self, id: RunId, sample_id: str, *, record: bool = False) -> Sample:
        """`record`: with that of its episode. Raises NotFound, Unavailable; FailedPrecondition for a record that is not
        kept."""
        await self._runs.get(id)
        if wanted := SampleId.parse(sample_id):
            for one in await self._store.of_step(id, wanted.step, Wanted(id=wanted), records=record):
                if record and not one.record:
                    raise FailedPrecondition(f"sample {wanted} of run {id} has no record: is it of a task folder?")
                return one
        raise NotFound(f"run {id} has no sample {sample_id[:80]!r}: ratchet samples list {id}")

    async def _steps(self, id: RunId, wanted: Wanted) -> Sequence[int]:
        return await self._store.steps(id) if wanted.step is None else [wanted.step]
