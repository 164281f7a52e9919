"""The work on data sets of pairs: they are examined, and taken apart where something in them is forgotten."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from ratchet_kit.errors import FailedPrecondition, Failure, NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.logs import get_logger
from ratchet_kit.names import DatasetRef
from ratchet_kit.times import Clock
from registry_service.domain.dataset import Content, Dataset, DatasetSpec, PairContent, Seen, Upload
from registry_service.domain.ports import DatasetFiles, DatasetStore, PairFiles

log = get_logger(__name__)
Units = Mapping[str, datetime]


class PairWork:
    def __init__(self, store: DatasetStore, files: DatasetFiles, pairs: PairFiles, clock: Clock) -> None:
        self._store = store
        self._files = files
        self._pairs = pairs
        self._clock = clock

    async def examine(self, claim: Dataset, seen: Seen) -> tuple[Mapping[str, Content], Units]:
        """The contents by split, without what is forgotten, and whose pairs they hold. Raises what `PairFiles.examine`
        raises, FailedPrecondition where nothing is left."""
        forgotten = await self._store.forgotten()
        found = {
            name: await self._pairs.examine(claim.id, name, split.upload, forgotten, seen.rows(name))
            for name, split in claim.splits.items()
        }
        contents = _contents(found)
        if not contents:
            raise FailedPrecondition("all of its pairs are forgotten")
        return contents, _units(found.values())

    async def forget(self, claim: Dataset, owner: str) -> None:
        """Makes the next version, where this was the newest, of what is not forgotten; deletes this one's files; ends
        it. Each of them may be repeated: a worker that is killed leaves the rest to the next.

        Raises Unavailable, Aborted where another was forgotten meanwhile.
        """
        forgotten = await self._store.forgotten()
        found: dict[str, PairContent] = {}
        for name, split in claim.splits.items():
            with suppress(NotFound):  # it was deleted, and this worker killed
                if split.content:
                    found[name] = await self._pairs.without(split.content.sha256, forgotten)
        if await self._is_newest(claim):
            await self._make_next(claim, found)
        contents = [split.content.sha256 for split in claim.splits.values() if split.content]
        await self._delete_unused(contents, claim.ref)
        reason = Failure("FAILED_PRECONDITION", "something in it is forgotten; a later version has the rest")
        ended = await self._store.change(claim.ref, lambda it: it.forget(owner, reason, self._clock.now()))
        await self._delete_unused(contents)  # another version may have had one, and ended meanwhile
        log.info("dataset.forgotten", id=ended.id, pairs=sum(one.removed for one in found.values()))

    async def _delete_unused(self, contents: Sequence[str], but: DatasetRef | None = None) -> None:
        await self._store.release(contents, self._files.delete, but)

    async def _is_newest(self, claim: Dataset) -> bool:
        try:
            return (await self._store.get(DatasetRef(claim.name))).number < claim.number
        except NotFound:
            return True

    async def _make_next(self, claim: Dataset, found: Mapping[str, PairContent]) -> None:
        contents = _contents(found)
        if not contents:
            return
        uploads = {name: Upload(content.size_bytes, content.sha256) for name, content in contents.items()}
        spec = DatasetSpec(claim.name, replace(claim.card, made_of=claim.id), uploads)
        request = Request.of("", claim.id, dict(uploads))
        made = await self._store.remake(spec, contents, _units(found.values()), claim.actor, self._clock.now(), request)
        log.info("dataset.ready", id=made.id, made_of=claim.id)


def _contents(found: Mapping[str, PairContent]) -> dict[str, Content]:
    return {name: one.content for name, one in found.items() if one.content is not None}


def _units(found: Iterable[PairContent]) -> Units:
    units: dict[str, datetime] = {}
    for one in found:
        for unit, time in one.units.items():
            units[unit] = min(time, units.get(unit, time))
    return units
