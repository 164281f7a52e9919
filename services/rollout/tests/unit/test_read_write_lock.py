import asyncio

import pytest

from rollout_service.domain.read_write_lock import ReadWriteLock


async def test_many_read_at_once() -> None:
    lock = ReadWriteLock()
    async with lock.reading(), lock.reading():
        pass


async def test_a_writer_waits_for_readers_and_later_readers_wait_for_it() -> None:
    lock, order = ReadWriteLock(), list[str]()

    async def write() -> None:
        async with lock.writing():
            order.append("write")

    async def late_read() -> None:
        async with lock.reading():
            order.append("read")

    async with lock.reading():
        waiting = asyncio.create_task(write())
        await asyncio.sleep(0)
        coming = asyncio.create_task(late_read())
        await asyncio.sleep(0.01)
        assert order == []
    await asyncio.gather(waiting, coming)
    assert order == ["write", "read"]


async def test_one_writer_at_a_time() -> None:
    lock, inside = ReadWriteLock(), 0

    async def write() -> None:
        nonlocal inside
        async with lock.writing():
            inside += 1
            await asyncio.sleep(0)
            assert inside == 1
            inside -= 1

    await asyncio.gather(*(write() for _ in range(20)))


async def test_a_writer_that_stops_waiting_lets_readers_in() -> None:
    lock = ReadWriteLock()
    async with lock.reading():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), lock.writing():
                pass
        async with asyncio.timeout(1), lock.reading():
            pass


async def test_a_waiting_reader_gets_in_when_the_writer_before_it_gives_up() -> None:
    lock = ReadWriteLock()

    async def read() -> None:
        async with lock.reading():
            pass

    async with lock.reading():
        given_up = asyncio.create_task(lock.writing().__aenter__())
        await asyncio.sleep(0)
        waiting = asyncio.create_task(read())
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait_for(waiting, 1)


async def test_a_cancelled_reader_leaves() -> None:
    lock = ReadWriteLock()

    async def read() -> None:
        async with lock.reading():
            await asyncio.Event().wait()

    task = asyncio.create_task(read())
    await asyncio.sleep(0)
    task.cancel()
    async with asyncio.timeout(1), lock.writing():
        pass
