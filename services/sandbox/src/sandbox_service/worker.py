"""The work on stored batches: one chunk of programs at a time, as `ratchet_kit.worker` asks for it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta

from ratchet_kit.errors import FailedPrecondition, InvalidArgument, RatchetError, Unavailable, Unimplemented
from ratchet_kit.logs import get_logger
from ratchet_kit.times import Clock
from ratchet_kit.work import Waiting
from sandbox_service.domain.batch import ChunkRef, Claim, Record
from sandbox_service.domain.ports import BatchStore
from sandbox_service.domain.program import Program
from sandbox_service.domain.runtimes import settle
from sandbox_service.domain.sandbox import Sandbox
from sandbox_service.domain.stream import Item, PlatformFault

log = get_logger(__name__)

MAX_ATTEMPTS = 5
"""How often a chunk is begun before what is left of it gets an error in place of a verdict."""

_MOST_WAITING = 10_000
_NOT_HERE = (InvalidArgument, Unimplemented, FailedPrecondition)


@dataclass(frozen=True, slots=True)
class Wire:
    """From what is kept, and to it. `program` raises InvalidArgument."""

    program: Callable[[bytes], Awaitable[Program]]
    record: Callable[[Item], Record]


class ChunkWork:
    """`ratchet_kit.work.Work` on chunks."""

    kind = "chunk"

    def __init__(
        self, node: str, lease: timedelta, store: BatchStore, sandbox: Sandbox, wire: Wire, clock: Clock
    ) -> None:
        """`node`: no other living one has this name. `lease`: how long a chunk stays with a node that has died."""
        self._node = node
        self._lease = lease
        self._store = store
        self._sandbox = sandbox
        self._wire = wire
        self._clock = clock

    async def claim(self, id: str) -> Claim:
        return await self._store.claim(ChunkRef.parse(id), self._node, self._clock.now(), self._lease)

    async def renew(self, claim: Claim) -> None:
        now = self._clock.now()
        await self._store.change_chunk(claim.chunk.ref, lambda chunk: chunk.renew(self._node, now, self._lease))

    async def release(self, claim: Claim, *, attempted: bool) -> None:
        await self._store.change_chunk(claim.chunk.ref, lambda chunk: chunk.release(self._node, attempted=attempted))

    async def do(self, claim: Claim) -> None:
        """Runs the programs and records the outcomes. Programs that could not be run here leave the chunk unfinished;
        at the last attempt each of them gets its error instead. Raises Unavailable then, too."""
        faults = await self._execute(claim)
        if faults:
            if claim.attempts >= MAX_ATTEMPTS:
                last = f" (after {MAX_ATTEMPTS} attempts)"
                await self._record_faults(claim, {index: reason + last for index, reason in faults.items()})
            raise Unavailable(next(iter(faults.values())))
        await self._finish(claim)

    async def fail(self, claim: Claim, error: RatchetError) -> None:
        """What is not recorded yet gets the error; a record that is there stays."""
        await self._record_faults(claim, dict.fromkeys(claim.programs, error.message))
        await self._finish(claim)

    async def waiting(self) -> Sequence[Waiting]:
        return await self._store.waiting(self._clock.now(), _MOST_WAITING)

    async def _execute(self, claim: Claim) -> dict[int, str]:
        """Records the outcomes. Returns why some programs could not be run here, by index.

        Raises NotFound and FailedPrecondition when the batch has gone or ended, Unavailable.
        """
        programs, faults = await self._read(claim)
        places = list(programs)
        if not programs:
            return faults

        async def one() -> AsyncIterator[Sequence[Program]]:
            yield list(programs.values())

        stream = self._sandbox.execute_stream(one(), claim.caller, claim.priority, patient=True)
        async with aclosing(stream):
            async for items in stream:
                done = []
                for item in items:
                    index = places[item.index]
                    if isinstance(item.outcome, PlatformFault):
                        faults[index] = f"{self._node}: {item.outcome.message}"
                    else:
                        done.append(self._wire.record(Item(index, item.outcome)))
                await self._store.record(claim.chunk.ref.batch_id, done)
        return faults

    async def _read(self, claim: Claim) -> tuple[dict[int, Program], dict[int, str]]:
        """The programs by index, and why some cannot be run here."""
        programs: dict[int, Program] = {}
        faults: dict[int, str] = {}
        for index, content in claim.programs.items():
            try:
                await asyncio.sleep(0)  # others have their turn
                program = await self._wire.program(content)
                programs[index] = settle(program, self._sandbox.capabilities)
            except _NOT_HERE as error:
                faults[index] = f"{self._node}: {error.message}"
        return programs, faults

    async def _record_faults(self, claim: Claim, faults: dict[int, str]) -> None:
        records = [self._wire.record(Item(index, PlatformFault(reason))) for index, reason in faults.items()]
        await self._store.record(claim.chunk.ref.batch_id, records)

    async def _finish(self, claim: Claim) -> None:
        batch = await self._store.finish(claim.chunk.ref, self._clock.now())
        if batch.state.ended:
            log.info("batch.ended", batch_id=batch.id, state=batch.state.value, programs=batch.programs_total)
