"""Work on many things, several at a time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ratchet_kit.errors import Unavailable

T = TypeVar("T")


def parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """`size` at a time, in order."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


async def each(items: AsyncIterator[T], work: Callable[[T], Awaitable[None]], at_once: int) -> None:
    """`work` on every item; the next one is taken when there is a hand for it. The first error ends it all."""
    lock = asyncio.Lock()

    async def worker() -> None:
        while True:
            async with lock:
                try:
                    item = await anext(items)
                except StopAsyncIteration:
                    return
            await work(item)

    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(at_once):
                workers.create_task(worker())
    except ExceptionGroup as error:
        raise error.exceptions[0] from error  # the first one ended the others


class Batches(Generic[T]):
    """Writes that come within a moment go together."""

    def __init__(self, write: Callable[[list[T]], Awaitable[None]], moment: float) -> None:
        """`moment`: seconds."""
        self._write = write
        self._moment = moment
        self._open: _Batch[T] | None = None
        self._writing = asyncio.Lock()

    async def add(self, item: T) -> None:
        """Returns once it is written. Raises what `write` raises, to one; Unavailable to the others of its batch."""
        if self._open is not None:
            batch = self._open
            batch.items.append(item)
            await batch.done.wait()
            if not batch.is_written:
                raise Unavailable("what was to be stored together was not")
            return
        batch = self._open = _Batch([item])
        try:
            await asyncio.sleep(self._moment)
            async with self._writing:
                self._open = None
                await self._write(batch.items)
            batch.is_written = True
        finally:
            if self._open is batch:
                self._open = None
            batch.done.set()


@dataclass(slots=True)  # mutable: it grows until it is written
class _Batch(Generic[T]):
    items: list[T]
    done: asyncio.Event = field(default_factory=asyncio.Event)
    is_written: bool = False
