import asyncio

import pytest

from rollout_service.domain.gate import Gate


async def test_many_share_it() -> None:
    gate = Gate()
    async with gate.shared(), gate.shared():
        pass


async def test_alone_waits_for_those_who_share_and_those_who_come_wait_for_it() -> None:
    gate, order = Gate(), list[str]()

    async def alone() -> None:
        async with gate.alone():
            order.append("alone")

    async def late() -> None:
        async with gate.shared():
            order.append("late")

    async with gate.shared():
        waiting = asyncio.create_task(alone())
        await asyncio.sleep(0)
        coming = asyncio.create_task(late())
        await asyncio.sleep(0.01)
        assert order == []
    await asyncio.gather(waiting, coming)
    assert order == ["alone", "late"]


async def test_one_at_a_time_alone() -> None:
    gate, inside = Gate(), 0

    async def alone() -> None:
        nonlocal inside
        async with gate.alone():
            inside += 1
            await asyncio.sleep(0)
            assert inside == 1
            inside -= 1

    await asyncio.gather(*(alone() for _ in range(20)))


async def test_who_stops_waiting_to_be_alone_lets_the_others_in() -> None:
    gate = Gate()
    async with gate.shared():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), gate.alone():
                pass
        async with asyncio.timeout(1), gate.shared():
            pass


async def test_a_waiter_gets_in_when_the_one_before_it_gives_up() -> None:
    gate = Gate()

    async def shared() -> None:
        async with gate.shared():
            pass

    async with gate.shared():
        given_up = asyncio.create_task(gate.alone().__aenter__())
        await asyncio.sleep(0)
        waiting = asyncio.create_task(shared())
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait_for(waiting, 1)


async def test_a_cancelled_sharer_leaves() -> None:
    gate = Gate()

    async def shared() -> None:
        async with gate.shared():
            await asyncio.Event().wait()

    task = asyncio.create_task(shared())
    await asyncio.sleep(0)
    task.cancel()
    async with asyncio.timeout(1), gate.alone():
        pass
