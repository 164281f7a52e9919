"""The work on data sets: their files are read, checked, and kept by their digest."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from ratchet_kit.errors import Aborted, RatchetError, Unavailable
from ratchet_kit.logs import get_logger
from ratchet_kit.names import DatasetRef
from ratchet_kit.projects import is_seen
from ratchet_kit.times import Clock
from ratchet_kit.work import Waiting, every, surviving
from ratchet_kit.worker import HeldWork
from registry_service.domain.dataset import TRAINING, Content, Dataset, Progress, Seen, State
from registry_service.domain.finding import Other, notices
from registry_service.domain.pair_work import PairWork
from registry_service.domain.ports import DatasetFiles, DatasetStore, FindingStore, SketchStore, TaskFiles

log = get_logger(__name__)

VERSIONS_AT_ONCE = 200
"""Versions that are read at once."""
TELL_INTERVAL = timedelta(seconds=1)
"""Time between two notes of how far an examination is."""


class Examinations(HeldWork[Dataset]):
    """Examines one data set after another. Two workers that examine the same write the same bytes."""

    kind = "dataset"

    def __init__(
        self,
        store: DatasetStore,
        files: DatasetFiles,
        sketches: SketchStore,
        findings: FindingStore,
        pairs: PairWork,
        tasks: TaskFiles,
        owner: str,
        clock: Clock,
        lease: timedelta,
    ) -> None:
        super().__init__(lambda id, change: store.change(DatasetRef.parse(id), change), owner, clock, lease)
        self._store = store
        self._files = files
        self._sketches = sketches
        self._findings = findings
        self._pairs = pairs
        self._tasks = tasks

    async def do(self, claim: Dataset) -> None:
        if claim.is_forgetting:
            await self._pairs.forget(claim, self.owner)
            return
        try:
            async with self._noting(claim) as seen:
                contents, units = await self._examine(claim, seen)
        except (Unavailable, Aborted):
            raise
        except RatchetError as error:
            await self.fail(claim, error)
            log.warning("dataset.failed", reason=error.message)
        else:
            ready = await self._store.complete(
                claim.ref, lambda it: it.complete(self.owner, contents, self.clock.now()), units
            )
            parts = [part.sha256 for content in contents.values() for part in content.kept]
            if gone := await self._files.missing(parts):  # with another version that had them, before this was READY
                log.warning("dataset.contents_rewritten", id=ready.id, contents=len(gone))
                await self._examine(claim, Seen())
            log.info("dataset.ready", rows=sum(content.rows for content in contents.values()), id=ready.id)
        with surviving("discard an upload", dataset=claim.id):
            await self._files.discard(claim.id)

    async def _examine(self, claim: Dataset, seen: Seen) -> tuple[Mapping[str, Content], Mapping[str, datetime]]:
        """Keeps the contents of its splits, and returns them with the time of each unit that they hold."""
        if claim.card.pairs:
            return await self._pairs.examine(claim, seen)
        return await (self._examined_tasks if claim.card.folders else self._examined)(claim, seen), {}

    @asynccontextmanager
    async def _noting(self, claim: Dataset) -> AsyncIterator[Seen]:
        """Inside the block, what is told to the Seen is stored now and then."""
        seen, stop, stored = Seen(), asyncio.Event(), dict[str, Progress]()

        async def note() -> None:
            progress = dict(seen.progress)
            if progress != stored:
                await self._store.change(claim.ref, lambda it: it.examined_to(self.owner, progress))
                stored.update(progress)

        noting = asyncio.create_task(every(TELL_INTERVAL, stop, note, name="note progress"))
        try:
            yield seen
        finally:
            stop.set()
            await noting

    async def _examined(self, claim: Dataset, seen: Seen) -> Mapping[str, Content]:
        """Examines each split, and keeps its findings."""
        is_benchmark = bool(claim.card.edition)
        examined = {
            name: await self._files.examine(claim.id, name, split.upload, seen.rows(name), as_rows=is_benchmark)
            for name, split in claim.splits.items()
        }
        contents = {name: one.content for name, one in examined.items()}
        if is_benchmark:
            return contents
        digests = {name: content.digest for name, content in contents.items()}
        alike = await self._sketches.alike(digests, await self._others(claim.name, digests), seen.compared)
        findings = {
            name: (*one.findings, *(alike[name].findings if name in alike else ())) for name, one in examined.items()
        }
        made_of = DatasetRef.parse(claim.card.made_of) if claim.card.made_of else None
        await self._findings.replace(claim.ref, digests, chain(*findings.values()), made_of)
        return {
            name: replace(
                content,
                notices=notices(findings[name]),
                compared_sets=alike[name].sets if name in alike else 0,
                compared_problems=alike[name].problems if name in alike else 0,
            )
            for name, content in contents.items()
        }

    async def _examined_tasks(self, claim: Dataset, seen: Seen) -> Mapping[str, Content]:
        """As `_examined`. Near-duplicates of tasks are not looked for."""
        examined = {
            name: await self._tasks.examine(claim.id, name, split.upload, seen.rows(name))
            for name, split in claim.splits.items()
        }
        contents = {name: one.content for name, one in examined.items()}
        digests = {name: content.digest for name, content in contents.items()}
        await self._findings.replace(claim.ref, digests, chain(*(one.findings for one in examined.values())), None)
        return contents

    async def _others(self, name: str, digests: Mapping[str, str]) -> Sequence[Other]:
        """Every set that may be measured on, or was for a gate, the newest of a name first. Of earlier versions of this
        name only what was measured for a gate counts, for training alone: versions share most of their problems."""
        gated = await self._store.gated()
        others: dict[tuple[str, bool], Other] = {}
        after: Sequence[Any] | None = None
        while page := await self._store.page(None, VERSIONS_AT_ONCE, after):
            after = [page[-1].name, page[-1].number]
            for dataset in page:
                if (
                    dataset.state is not State.READY
                    or dataset.card.pairs
                    or dataset.card.folders
                    or not is_seen(dataset.name)
                ):
                    continue
                is_own, is_gated = dataset.name == name, dataset.ref in gated
                if not is_own or is_gated:
                    for other in _measured(dataset, is_gated=is_gated and not is_own):
                        others.setdefault((other.key, is_own), replace(other, training_alone=is_own))
        within = {digest for split, digest in digests.items() if split != TRAINING}  # compared in any case
        return [other for other in others.values() if not (other.training_alone and other.key in within)]

    async def waiting(self) -> Sequence[Waiting]:
        return [Waiting(it.id, it.create_time) for it in await self._store.waiting(self.clock.now())]


def _measured(dataset: Dataset, *, is_gated: bool) -> Iterator[Other]:
    """The contents that may be measured on: a benchmark, and splits that are not for training; of a version that was
    measured for a gate (`is_gated`) these, too, as nobody noted which split it was."""
    for name, split in dataset.splits.items():
        if split.content is not None and dataset.card.edition:
            yield Other(dataset.name, split.content.sha256)
        elif split.content is not None and (name != TRAINING or is_gated):
            yield Other(f"{dataset.ref}/{name}", split.content.digest)
