"""The whole service, as main builds it, over doubles of its ports."""

import asyncio
from datetime import timedelta

from ratchet_testing.clock import ManualClock
from ratchet_testing.queue import MemoryQueue
from sandbox_service.domain.batch import NewProgram, State
from sandbox_service.domain.execution import Verdict
from sandbox_service.domain.jobs import End, Job, Report, Stage
from sandbox_service.domain.program import Program
from sandbox_service.main import provision
from sandbox_service.settings import Settings

from ..doubles import ScriptedExecutor
from ..memory import MemoryBatchStore

SETTINGS = Settings(redis_url="", database_url="", http_port=None)


async def _exits(job: Job) -> Report:
    return Report(End.EXITED, 0, Stage.ENDED, timedelta(), timedelta(), ("scripted",))


async def test_a_program_runs_on_the_lanes_that_are_handed_in() -> None:
    pool = ScriptedExecutor(_exits)
    async with provision(SETTINGS, pool=pool) as service:
        execution = await service.sandbox.execute(Program("p", "pass"))
    assert (execution.verdict, execution.layers, len(pool.jobs)) == (Verdict.PASSED, ("scripted",), 1)
    assert service.background == [service.workspaces.run]


async def test_a_stored_batch_is_worked_off(clock: ManualClock) -> None:
    ports = {"pool": ScriptedExecutor(_exits), "store": MemoryBatchStore(), "queue": MemoryQueue(), "clock": clock}
    async with provision(SETTINGS, **ports) as service:
        content = b"\x12\x04pass"  # a Program whose source is "pass"
        batch = await service.batches.create([NewProgram(Program("", "pass"), content)] * 40)
        stop = asyncio.Event()
        working = [asyncio.create_task(work(stop)) for work in service.background]
        async with asyncio.timeout(10):
            progress = [each async for each in service.batches.watch(batch.id)]
            stop.set()
            await asyncio.gather(*working)
    assert progress[-1].batch.state is State.SUCCEEDED
    assert sum(len(each.records) for each in progress) == 40
