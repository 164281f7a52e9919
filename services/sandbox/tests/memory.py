"""BatchStore in memory, for tests: the same promises, for one process."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from ratchet_kit.errors import NotFound
from ratchet_kit.idempotency import Made, Request
from ratchet_kit.work import Hold, Waiting
from sandbox_service.domain.batch import Batch, Chunk, ChunkRef, Claim, Record, chunks


class MemoryBatchStore:
    def __init__(self) -> None:
        self._batches: dict[str, Batch] = {}
        self._made = Made[str]("batch")
        self._chunks: dict[ChunkRef, Chunk] = {}
        self._programs: dict[str, Sequence[bytes]] = {}
        self._records: dict[str, dict[int, Record]] = {}

    async def create(self, batch: Batch, programs: Sequence[bytes], request: Request) -> Batch:
        existing = await self.find(request)
        if existing is not None:
            return existing
        self._batches[batch.id] = batch
        self._made.add(request, batch.id)
        self._chunks |= {chunk.ref: chunk for chunk in chunks(batch)}
        self._programs[batch.id] = list(programs)
        self._records[batch.id] = {}
        return batch

    async def find(self, request: Request) -> Batch | None:
        id = self._made.find(request)
        return None if id is None else await self.get(id)

    async def get(self, id: str) -> Batch:
        if id not in self._batches:
            raise NotFound(f"there is no batch {id!r}")
        return replace(self._batches[id], programs_done=len(self._records[id]))

    async def page(self, caller: str, limit: int, after: str | None) -> Sequence[Batch]:
        own = [id for id, batch in self._batches.items() if batch.caller == caller]
        ids = [id for id in sorted(own, reverse=True) if after is None or id < after]
        return [await self.get(id) for id in ids[:limit]]

    async def change(self, id: str, change: Callable[[Batch], Batch]) -> Batch:
        self._batches[id] = change(await self.get(id))
        return self._batches[id]

    async def claim(self, ref: ChunkRef, owner: str, now: datetime, lease: timedelta) -> Claim:
        chunk = await self.change_chunk(ref, lambda chunk: chunk.claim(owner, now, lease))
        batch, records = self._batches[ref.batch_id], self._records[ref.batch_id]
        indices = range(ref.first, ref.first + chunk.size)
        programs = {index: self._programs[ref.batch_id][index] for index in indices if index not in records}
        return Claim(chunk, batch.priority, batch.caller, programs)

    async def change_chunk(self, ref: ChunkRef, change: Callable[[Chunk], Chunk]) -> Chunk:
        (await self.get(ref.batch_id)).must_run("be worked on")
        if ref not in self._chunks:
            raise NotFound(f"batch {ref.batch_id} has no chunk at {ref.first}")
        self._chunks[ref] = change(self._chunks[ref])
        return self._chunks[ref]

    async def record(self, id: str, records: Sequence[Record]) -> int:
        (await self.get(id)).must_run("be worked on")
        there = self._records[id]
        new = [record for record in records if record.index not in there]
        there.update((record.index, record) for record in new)
        return len(new)

    async def finish(self, ref: ChunkRef, now: datetime) -> Batch:
        batch = await self.get(ref.batch_id)
        chunk, records = self._chunks[ref], self._records[ref.batch_id]
        if all(index in records for index in range(ref.first, ref.first + chunk.size)):
            self._chunks[ref] = replace(chunk, done=True, hold=Hold())
        if not batch.state.ended and all(chunk.done for chunk in self._of(batch.id)):
            return await self.change(batch.id, lambda batch: batch.succeed(now))
        return batch

    async def recorded(self, id: str, first: int) -> Sequence[int]:
        return sorted(index for index in self._records[id] if index >= first)

    async def records(self, id: str, indices: Sequence[int]) -> Sequence[Record]:
        return [self._records[id][index] for index in sorted(indices) if index in self._records[id]]

    async def waiting(self, now: datetime, limit: int) -> Sequence[Waiting]:
        running = {batch.id: batch for batch in self._batches.values() if not batch.state.ended}
        found = [
            Waiting(str(ref), running[ref.batch_id].create_time, running[ref.batch_id].priority)
            for ref, chunk in sorted(self._chunks.items(), key=lambda item: (item[0].batch_id, item[0].first))
            if ref.batch_id in running and not chunk.done and chunk.hold.is_free(now)
        ]
        return found[:limit]

    async def forget(self, before: datetime) -> int:
        old = [batch.id for batch in self._batches.values() if batch.end_time is not None and batch.end_time < before]
        for id in old:
            await self.delete(id)
        return len(old)

    async def delete(self, id: str) -> None:
        (await self.get(id)).must_have_ended("be deleted")
        for chunk in self._of(id):
            del self._chunks[chunk.ref]
        del self._batches[id], self._programs[id], self._records[id]
        self._made.remove({id})

    def _of(self, id: str) -> list[Chunk]:
        return [chunk for chunk in self._chunks.values() if chunk.ref.batch_id == id]
