"""One caller's programs under way: one task reads them in, another takes their results out."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from ratchet_kit.errors import RatchetError
from ratchet_kit.work import Priority
from sandbox_service.domain.admission import Admission, Load, Ticket
from sandbox_service.domain.execution import Execution
from sandbox_service.domain.program import Program

READ_AHEAD = 512
"""Programs of one stream that are queued, running or not yet taken by its reader; beyond it the stream is not read."""
READY_BYTES = 64 << 20
"""Of results that its reader has not taken: beyond it no more programs of the stream are admitted."""
GATHER_ITEMS = 32
GATHER_TIME = timedelta(milliseconds=10)
"""Results that come close together travel together: a message costs as much as ten results in it."""
PORTION = 8 << 20
"""Bytes of results in a message: one alone may be larger, and a message holds 64 MiB."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PlatformFault:
    """Why a program of a batch has no execution: the platform failed it. Retry."""

    message: str


@dataclass(frozen=True, slots=True)
class Item:
    """The outcome of one program of a stream. `index` is its place in the stream, from 0."""

    index: int
    outcome: Execution | PlatformFault

    @property
    def size(self) -> int:
        """Bytes, about."""
        one = self.outcome
        if isinstance(one, PlatformFault):
            return len(one.message)
        return len(one.stdout) + len(one.stderr) + sum(len(file.content) for file in one.files)


class Stream:
    def __init__(
        self,
        admission: Admission,
        settle: Callable[[Program], Program],
        caller: str,
        priority: Priority,
        patient: bool,
    ) -> None:
        """`settle` decides a program's language and runtime. `patient`: the first batch, too, waits for room."""
        self._admission, self._settle = admission, settle
        self._caller, self._priority, self._patient = caller, priority, patient
        self.tickets: dict[int, Ticket] = {}
        self.changed = asyncio.Event()
        self._taken = asyncio.Event()
        self._ready: list[Item] = []
        self._ready_bytes = 0

    async def read(self, batches: AsyncIterator[Sequence[Program]]) -> None:
        """Admits all programs of `batches`. Raises what `settle` and `batches` raise, and ResourceExhausted."""
        index, first = 0, not self._patient
        while (batch := await anext(batches, None)) is not None:
            programs = [self._settle(program) for program in batch]
            if first and programs:
                self._admission.demand_room(programs, self._caller)
            for program in programs:
                if not first:
                    await self._wait_for_room(program)
                self._add(index, program)
                index += 1
            first = False
            await self._admission.wait_for_room(Load(bytes=1), self._caller)  # what is read would be held here

    async def _wait_for_room(self, program: Program) -> None:
        while len(self.tickets) + len(self._ready) >= READ_AHEAD or self._ready_bytes >= READY_BYTES:
            self._taken.clear()
            await self._taken.wait()
        await self._admission.wait_for_room(Load(1, program.size), self._caller)

    def _add(self, index: int, program: Program) -> None:
        def done(outcome: Execution | RatchetError) -> None:
            del self.tickets[index]
            # whatever became of one program, the others of the stream go on
            item = Item(index, PlatformFault(str(outcome)) if isinstance(outcome, RatchetError) else outcome)
            self._ready.append(item)
            self._ready_bytes += item.size
            self.changed.set()

        self.tickets[index] = self._admission.submit(program, done, self._caller, self._priority)

    async def wait_for_items(self, reader: asyncio.Task[None]) -> None:
        """Until enough results are there for a message, or a moment after the first one came, or no more come."""
        gathering: float | None = None
        loop = asyncio.get_running_loop()
        while True:
            if len(self._ready) >= GATHER_ITEMS or (not self.tickets and (self._ready or reader.done())):
                return
            if reader.done() and reader.exception() is not None:
                return
            if self._ready and gathering is None:
                gathering = loop.time() + GATHER_TIME.total_seconds()
            if gathering is not None and loop.time() >= gathering:
                return
            self.changed.clear()
            try:
                async with asyncio.timeout_at(gathering):
                    await self.changed.wait()
            except TimeoutError:
                return

    def take(self) -> list[Item]:
        items, self._ready, self._ready_bytes = self._ready, [], 0
        self._taken.set()
        return items


def portions(items: Sequence[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """As many as fit in a message: with files or long outputs, one may have megabytes."""
    portion: list[T] = []
    total = 0
    for item in items:
        if portion and total + size(item) > PORTION:
            yield portion
            portion, total = [], 0
        portion.append(item)
        total += size(item)
    if portion:
        yield portion
