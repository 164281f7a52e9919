"""Work on many things, several at a time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Generic, TypeVar

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
    """Writes that come while one is under way go together in the next. Nothing waits for a batch to fill."""

    def __init__(self, write: Callable[[list[T]], Awaitable[None]]) -> None:
        self._write = write
        self._waiting: list[T] = []
        self._writing = asyncio.Lock()

    async def add(self, item: T) -> None:
        """Returns once it is written. Raises what `write` raises; then nothing of its batch may be."""
        self._waiting.append(item)
        async with self._writing:
            if self._waiting:
                batch, self._waiting = self._waiting, []
                await self._write(batch)
