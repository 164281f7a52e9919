"""Work on many things at once, and writes that go together."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from eval_service.domain.parallel import Batches, each, parts
from ratchet_kit.errors import Unavailable


async def numbers(count: int) -> AsyncIterator[int]:
    for number in range(count):
        yield number


async def test_every_item_is_worked_on_and_so_many_at_once() -> None:
    under_way, most, done = 0, 0, []

    async def work(number: int) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        done.append(number)

    await each(numbers(20), work, 3)
    assert (sorted(done), most) == (list(range(20)), 3)
    await each(numbers(0), work, 3)


async def test_the_first_error_ends_it() -> None:
    async def work(number: int) -> None:
        if number == 5:
            raise ZeroDivisionError("five")
        await asyncio.sleep(0)

    with pytest.raises(ZeroDivisionError, match="five"):
        await each(numbers(1000), work, 4)


def test_parts() -> None:
    assert list(parts([1, 2, 3, 4, 5], 2)) == [[1, 2], [3, 4], [5]]


async def test_what_comes_together_is_written_together() -> None:
    written: list[list[int]] = []

    async def write(items: list[int]) -> None:
        await asyncio.sleep(0)
        written.append(list(items))

    batches = Batches(write, 0.01)
    for _ in range(5):  # whoever is done comes again, as workers do
        await asyncio.gather(*(batches.add(number) for number in range(100)))
    assert [len(batch) for batch in written] == [100] * 5


async def test_who_comes_while_a_batch_is_written_is_in_the_next() -> None:
    written: list[list[int]] = []
    writing = asyncio.Event()

    async def write(items: list[int]) -> None:
        await writing.wait()
        written.append(list(items))

    batches = Batches(write, 0)
    first = asyncio.create_task(batches.add(1))
    await asyncio.sleep(0.01)
    rest = [asyncio.create_task(batches.add(number)) for number in (2, 3)]
    await asyncio.sleep(0.01)
    writing.set()
    await asyncio.gather(first, *rest)
    assert written == [[1], [2, 3]]


async def test_a_batch_that_is_not_written_is_an_error_to_all_of_it() -> None:
    async def write(items: list[int]) -> None:
        raise ZeroDivisionError("no")

    batches = Batches(write, 0)
    found = await asyncio.gather(*(batches.add(number) for number in range(3)), return_exceptions=True)
    assert [type(error) for error in found] == [ZeroDivisionError, Unavailable, Unavailable]
    again = await asyncio.gather(batches.add(4), return_exceptions=True)
    assert [type(error) for error in again] == [ZeroDivisionError]
