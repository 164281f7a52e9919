"""Loops, holds and watches: what work in the background is made of."""

import asyncio
from datetime import timedelta

import pytest
from prometheus_client import REGISTRY

from ratchet_kit.errors import Aborted, Unavailable
from ratchet_kit.work import Hold, every, watch

LEASE = timedelta(minutes=1)


async def test_a_step_is_repeated_whatever_the_platform_does():
    stop, times = asyncio.Event(), []

    async def step() -> None:
        times.append(1)
        if len(times) == 2:
            raise Unavailable("away")
        if len(times) == 4:
            stop.set()

    async with asyncio.timeout(5):
        await every(timedelta(milliseconds=1), stop, step)
    assert len(times) == 4


@pytest.mark.parametrize("fault", [Unavailable("away"), KeyError("a bug"), asyncio.CancelledError()])
async def test_a_loop_survives_anything_and_counts_it(fault):
    stop, times = asyncio.Event(), []

    async def step() -> None:
        times.append(1)
        if len(times) == 2:
            stop.set()
        raise fault

    before = survived("survivor")
    async with asyncio.timeout(5):
        await every(timedelta(milliseconds=1), stop, step, name="survivor")
    assert survived("survivor") == before + 2


async def test_a_loop_that_is_cancelled_ends():
    async def step() -> None:
        await asyncio.sleep(10)

    loop = asyncio.create_task(every(timedelta(milliseconds=1), asyncio.Event(), step))
    await asyncio.sleep(0.01)
    loop.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loop


def survived(work: str) -> float:
    return REGISTRY.get_sample_value("ratchet_background_faults_total", {"work": work}) or 0.0


def test_a_hold_is_one_workers_until_it_runs_out(clock):
    now = clock.now()
    hold = Hold().claim("job 1", "a", now, LEASE)
    assert hold == Hold("a", now + LEASE, 1)
    assert hold.claim("job 1", "a", now, LEASE).attempts == 2, "one that was restarted under its name has it at once"
    for act in (
        lambda: hold.claim("job 1", "b", now, LEASE),
        lambda: hold.renew("job 1", "b", now, LEASE),
        lambda: hold.release("job 1", "b", attempted=True),
    ):
        with pytest.raises(Aborted, match="job 1"):
            act()
    assert hold.claim("job 1", "b", now + LEASE, LEASE) == Hold("b", now + 2 * LEASE, 2)
    assert hold.renew("job 1", "a", now + LEASE, LEASE) == Hold("a", now + 2 * LEASE, 1)
    assert hold.release("job 1", "a", attempted=True) == Hold(attempts=1)
    assert hold.release("job 1", "a", attempted=False) == Hold()


async def test_a_thing_is_watched_until_it_is_over():
    values = iter([("queued", 1), ("queued", 2), ("running", 3), ("done", 4), ("done", 5)])

    async def read() -> tuple[str, int]:
        return next(values)

    seen = [value async for value in watch(read, lambda v: v[0] == "done", key=lambda v: v[0], interval=timedelta(0))]
    assert seen == [("queued", 1), ("running", 3), ("done", 4)]
