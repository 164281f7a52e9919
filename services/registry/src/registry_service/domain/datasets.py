"""Data sets: create, write, find, list, watch, read, note a use, delete. `examinations.py` makes them ready."""

from collections.abc import AsyncIterator, Collection, Mapping
from datetime import datetime, timedelta
from functools import partial

from ratchet_kit import work
from ratchet_kit.errors import InvalidArgument, NotFound
from ratchet_kit.faults import Faults
from ratchet_kit.idempotency import Request, once
from ratchet_kit.logs import get_logger
from ratchet_kit.names import DatasetRef
from ratchet_kit.pages import Page, fetch_page
from ratchet_kit.times import Clock
from ratchet_kit.work import surviving
from registry_service.domain.dataset import Dataset, DatasetSpec, State
from registry_service.domain.ports import DatasetFiles, DatasetStore

log = get_logger(__name__)

MAX_USER = 64


class Datasets:
    def __init__(
        self,
        store: DatasetStore,
        files: DatasetFiles,
        queue: work.Queue,
        clock: Clock,
        licences: Collection[str] = (),
    ) -> None:
        """`licences`: those that are allowed; none: any."""
        self._store = store
        self._files = files
        self._queue = queue
        self._clock = clock
        self._licences = licences

    async def create(self, spec: DatasetSpec, request_id: str, actor: str = "") -> Dataset:
        """The next version of its name, or the one that has these files already.

        Raises InvalidArgument, AlreadyExists when the request id was used for another data set.
        """
        spec.check()
        if self._licences and spec.card.licence not in self._licences:
            faults = Faults()
            allowed = ", ".join(self._licences)
            faults.add("card.licence", f"must be one that this platform's operator allows: {allowed}")
            faults.raise_if_any("the data set cannot be made")
        request = Request.of(request_id, spec.name, spec.card, dict(spec.uploads))

        async def create() -> Dataset:
            dataset = await self._store.create(spec, actor, self._clock.now(), request)
            log.info("dataset.created", dataset=dataset.id, state=dataset.state)
            return dataset

        return await once(partial(self._store.find, request), create)

    async def write(self, ref: DatasetRef, data: bytes, offset: int) -> int:
        """Writes the next bytes of a split, and returns how many are there. Raises NotFound, FailedPrecondition,
        InvalidArgument, ResourceExhausted, Unavailable."""
        dataset = await self._store.get(ref)
        split = dataset.split(ref.split)
        if offset + len(data) == split.received and data:  # sent twice: the answer was lost
            return split.received
        dataset.check_write(ref.split, offset, len(data))
        await self._files.write_chunk(dataset.id, ref.split, offset, data)
        after = await self._store.change(ref, lambda it: it.written(ref.split, offset, len(data)))
        if after.state is State.EXAMINING:
            await work.enqueue(self._queue, after.id)
        return after.splits[ref.split].received

    async def get(self, ref: DatasetRef) -> Dataset:
        """Without a number the newest that is READY. Raises NotFound."""
        return await self._store.get(ref)

    async def page(self, name: str, page_size: int, page_token: str) -> Page[Dataset]:
        """Versions of one name, or of all, by name and the newest first. Raises NotFound when there is no such data
        set."""
        fetch = partial(self._store.page, name or None)
        return await fetch_page(fetch, lambda it: [it.name, it.number], (str, int), page_size, page_token)

    def watch(self, ref: DatasetRef) -> AsyncIterator[Dataset]:
        """The version as it is, then at each change, until it is READY or FAILED. Raises NotFound."""
        return work.watch(
            partial(self._store.get, ref),
            lambda it: it.state.is_final,
            key=lambda it: (it.state, it.received, it.progress),
        )

    async def read(self, ref: DatasetRef, offset: int) -> bytes:
        """Bytes of a split's content, MAX_CHUNK at most. Raises NotFound, FailedPrecondition, InvalidArgument,
        Unavailable."""
        content = (await self._store.get(ref)).content(ref.split)
        if not 0 <= offset <= content.size_bytes:
            raise InvalidArgument(f"offset must be from 0 to {content.size_bytes}; not {offset}")
        return await self._files.read(*content.at(offset))

    async def use(self, ref: DatasetRef, user: str) -> None:
        """Notes a run or an evaluation that uses it; the same again changes nothing. Raises InvalidArgument,
        NotFound."""
        faults = Faults()
        if faults.required("user", user):
            faults.length("user", user, MAX_USER)
        faults.raise_if_any()
        await self._store.use(ref, user, self._clock.now())

    async def forget(self, units: Mapping[str, datetime]) -> None:
        """Pairs of these users, sessions or keys that are not later than that time leave all data sets, and come into
        none. Nobody reads a version that holds some from now on. Raises InvalidArgument, Unavailable."""
        faults = Faults()
        for place, unit in enumerate(units):
            if faults.required(f"units[{place}].unit", unit):
                faults.length(f"units[{place}].unit", unit, MAX_USER)
        faults.raise_if_any()
        for dataset in await self._store.forget(units):
            log.info("dataset.forgetting", dataset=dataset.id)
            await work.enqueue(self._queue, dataset.id)

    async def delete(self, ref: DatasetRef, *, force: bool) -> None:
        """Deletes it, and of its files what no other version has. Raises what DatasetStore.delete raises."""
        dataset, unused = await self._store.delete(ref, force=force)
        log.info("dataset.deleted", dataset=dataset.id, uses=dataset.uses)
        with surviving("delete files of a data set", dataset=dataset.id):
            await self._files.discard(dataset.id)
            await self._store.release(unused, self._files.delete)

    async def sweep(self, older_than: timedelta) -> None:
        """Deletes versions whose upload was left unfinished, and the parts of uploads that are over: who ended one may
        have been stopped before it deleted them."""
        for ref in await self._store.uploading_before(self._clock.now() - older_than):
            with surviving("delete an unfinished upload", dataset=str(ref)):
                await self.delete(ref, force=True)
        for id in await self._files.uploads():
            with surviving("delete the parts of an upload", dataset=id):
                if await self._is_over(DatasetRef.parse(id)):
                    await self._files.discard(id)

    async def _is_over(self, ref: DatasetRef) -> bool:
        try:
            return (await self._store.get(ref)).state.is_final
        except NotFound:
            return True
