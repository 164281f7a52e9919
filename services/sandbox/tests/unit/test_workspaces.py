"""Workspaces over cages that are scripted: leases, bounds, owners, turns, and what is lost."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from ratchet_kit.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    Unavailable,
)
from ratchet_testing.clock import ManualClock
from sandbox_service.domain.levels import Level
from sandbox_service.domain.ports import CageLost
from sandbox_service.domain.workspace import Command, ExecEnd, Exit, Output, Usage, WorkspaceLimits, WorkspaceSpec
from sandbox_service.domain.workspaces import Workspaces

MIB = 1 << 20
SPEC = WorkspaceSpec(limits=WorkspaceLimits(memory_bytes=3 * MIB, disk_bytes=MIB, wall_time=timedelta(minutes=5)))
LEASE = timedelta(minutes=1)


class ScriptedCage:
    level, layers = Level.L2, ("scripted",)

    def __init__(self) -> None:
        self.is_up, self.stopped, self.lost = True, False, ""
        self.go = asyncio.Event()
        self.go.set()
        self.running = 0

    async def run(self, command: Command, stdin: AsyncIterator[bytes]) -> AsyncGenerator[Output | Exit]:
        self.running += 1
        assert self.running == 1
        try:
            yield Output(b"".join([chunk async for chunk in stdin]))
            await self.go.wait()
            if self.lost or self.stopped:
                raise CageLost(self.lost)
            yield Exit(ExecEnd.EXITED, 0, timedelta(), timedelta(), Usage(disk_bytes=5))
        finally:
            self.running -= 1

    async def write(self, folder: str, archive: AsyncIterator[bytes]) -> Usage:
        return Usage(disk_bytes=7)

    async def read(self, names: Sequence[str], changed: bool = False) -> AsyncGenerator[bytes]:
        yield b"tar"

    async def stop(self) -> None:
        self.stopped, self.is_up = True, False
        self.go.set()


class ScriptedCages:
    def __init__(self) -> None:
        self.made: list[ScriptedCage] = []
        self.error: Exception | None = None
        self.go = asyncio.Event()
        self.go.set()

    async def make(self, spec: WorkspaceSpec) -> ScriptedCage:
        await self.go.wait()
        if self.error:
            raise self.error
        self.made.append(ScriptedCage())
        return self.made[-1]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def cages() -> ScriptedCages:
    return ScriptedCages()


@pytest.fixture
def workspaces(cages: ScriptedCages, clock: ManualClock) -> Workspaces:
    return Workspaces(cages, clock, 8 * MIB)


async def _no_input() -> AsyncIterator[bytes]:
    yield b"in"


async def _exec(workspaces: Workspaces, id: str) -> list[Output | Exit]:
    return [event async for event in workspaces.exec(id, Command(("x",)), _no_input())]


async def test_a_workspace_ends_with_its_lease_and_never_lives_beyond_its_wall_time(
    workspaces: Workspaces, cages: ScriptedCages, clock: ManualClock
) -> None:
    id = (await workspaces.create(SPEC, LEASE)).id
    for _ in range(9):
        clock.advance(timedelta(seconds=30))
        await workspaces.renew(id, LEASE)
    assert (await workspaces.get(id)).expire_time == (await workspaces.get(id)).create_time + timedelta(minutes=5)
    clock.advance(timedelta(seconds=30))
    for asked in (workspaces.get(id), workspaces.renew(id, LEASE), workspaces.delete(id), _exec(workspaces, id)):
        with pytest.raises(NotFound):
            await asked
    assert not (await workspaces.page(0, "")).items
    assert not cages.made[0].stopped
    await workspaces.sweep()
    assert cages.made[0].stopped


async def test_a_request_makes_one_workspace_also_while_it_is_made(
    workspaces: Workspaces, cages: ScriptedCages, clock: ManualClock
) -> None:
    cages.go.clear()
    first = asyncio.create_task(workspaces.create(SPEC, LEASE, "me", "once"))
    second = asyncio.create_task(workspaces.create(SPEC, LEASE, "me", "once"))
    await asyncio.sleep(0)
    first.cancel()
    cages.go.set()
    assert (await workspaces.create(SPEC, LEASE, "me", "once")) == await second
    with pytest.raises(AlreadyExists):
        await workspaces.create(SPEC, LEASE * 2, "me", "once")
    clock.advance(LEASE)
    assert (await workspaces.create(SPEC, LEASE, "me", "once")) != await second
    assert len(cages.made) == 2


async def test_a_cage_that_cannot_be_made_takes_no_room(workspaces: Workspaces, cages: ScriptedCages) -> None:
    cages.error = Unavailable("not now")
    for _ in range(9):
        with pytest.raises(Unavailable):
            await workspaces.create(SPEC, LEASE, "me", "once")
    cages.error = None
    assert await workspaces.create(SPEC, LEASE, "me", "once")


async def test_the_nodes_bound(workspaces: Workspaces, cages: ScriptedCages) -> None:
    for _ in range(2):
        await workspaces.create(SPEC, LEASE)
    with pytest.raises(ResourceExhausted, match="2 workspaces hold 8 of 8 MiB") as full:
        await workspaces.create(SPEC, LEASE)
    assert full.value.retry_after == timedelta(seconds=1), "its leases are longer"
    with pytest.raises(InvalidArgument, match="more than the 8 MiB"):
        await workspaces.create(WorkspaceSpec(), LEASE)
    with pytest.raises(FailedPrecondition, match="RATCHET_SANDBOX_WORKSPACE_BYTES"):
        await Workspaces(cages, clock, 0).create(SPEC, LEASE)


async def test_calls_take_turns_and_usage_is_the_last_ones(workspaces: Workspaces, cages: ScriptedCages) -> None:
    id = (await workspaces.create(SPEC, LEASE)).id
    cages.made[0].go.clear()
    running = [asyncio.create_task(_exec(workspaces, id)) for _ in range(3)]
    await asyncio.sleep(0.01)
    cages.made[0].go.set()
    for events in await asyncio.gather(*running):
        assert [type(event) for event in events] == [Output, Exit]
    assert (await workspaces.get(id)).usage.disk_bytes == 5
    await workspaces.write(id, "", _no_input())
    assert (await workspaces.get(id)).usage.disk_bytes == 7


async def test_an_exec_ends_with_its_workspace_and_so_do_those_that_wait(
    workspaces: Workspaces, cages: ScriptedCages
) -> None:
    id = (await workspaces.create(SPEC, LEASE)).id
    cages.made[0].go.clear()
    running = [asyncio.create_task(_exec(workspaces, id)) for _ in range(3)]
    await asyncio.sleep(0.01)
    await workspaces.delete(id)
    for one in running:
        with pytest.raises(NotFound):
            await one


async def test_a_lost_cage_ends_its_workspace(workspaces: Workspaces, cages: ScriptedCages) -> None:
    one, other = [(await workspaces.create(SPEC, LEASE)).id for _ in range(2)]
    cages.made[0].lost = "its keeper was killed"
    with pytest.raises(NotFound, match="its keeper was killed"):
        await _exec(workspaces, one)
    cages.made[1].is_up = False
    await workspaces.sweep()
    with pytest.raises(NotFound):
        await workspaces.get(other)
    assert all(cage.stopped for cage in cages.made)
    for _ in range(2):
        await workspaces.create(SPEC, LEASE)  # their room is free


async def test_a_caller_sees_its_own(workspaces: Workspaces) -> None:
    id = (await workspaces.create(SPEC, LEASE, "me")).id
    assert [one.id for one in (await workspaces.page(0, "", "me")).items] == [id]
    assert not (await workspaces.page(0, "", "you")).items
    for asked in (workspaces.get(id, "you"), workspaces.renew(id, LEASE, "you"), workspaces.delete(id, "you")):
        with pytest.raises(NotFound):
            await asked
