import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from ratchet_kit.errors import ResourceExhausted, Unavailable
from sandbox_service.adapters.scripted import ScriptedExecutor
from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.ports import CallJob, End, Job, Report, Returned, Stage
from sandbox_service.domain.program import CallTest, Limits, Program, StdioTest
from sandbox_service.domain.sandbox import PlatformFault, Sandbox

RIGHT = Report(
    End.EXITED,
    0,
    Stage.ENDED,
    timedelta(seconds=1),
    timedelta(seconds=1),
    "scripted",
    answers=(Returned(2),),
    stdout="2",
)
PROGRAM = Program("p", "source", "f", (CallTest((1,), 2),), limits=Limits(cpu_time=timedelta(seconds=2)))


async def right(job: Job) -> Report:
    return RIGHT


async def test_a_fault_is_retried_once() -> None:
    async def once(job: Job) -> Report:
        if len(executor.jobs) == 1:
            raise Unavailable("lane lost")
        return RIGHT

    executor = ScriptedExecutor(once)
    assert (await Sandbox(executor, 10).execute(PROGRAM)).verdict is Verdict.PASSED
    assert len(executor.jobs) == 2


async def test_two_faults_are_an_error_and_no_verdict() -> None:
    async def never(job: Job) -> Report:
        raise Unavailable("lane lost")

    sandbox = Sandbox(ScriptedExecutor(never), 10)
    with pytest.raises(Unavailable, match="lane lost"):
        await sandbox.execute(PROGRAM)


async def test_in_a_batch_a_fault_is_the_items_own() -> None:
    async def some(job: Job) -> Report:
        if job.source == "bad":
            raise Unavailable("lane lost")
        return RIGHT

    programs = [PROGRAM, replace(PROGRAM, source="bad"), PROGRAM]
    items = await Sandbox(ScriptedExecutor(some), 10).execute_batch(programs)
    assert [type(item) for item in items] == [Execution, PlatformFault, Execution]


async def test_a_full_queue_refuses_with_a_hint_and_takes_again_later() -> None:
    gate = asyncio.Event()

    async def wait(job: Job) -> Report:
        await gate.wait()
        return RIGHT

    sandbox = Sandbox(ScriptedExecutor(wait), 3)
    running = asyncio.create_task(sandbox.execute_batch([PROGRAM, PROGRAM]))
    await asyncio.sleep(0)
    with pytest.raises(ResourceExhausted, match="2 of 3") as refused:
        await sandbox.execute_batch([PROGRAM, PROGRAM])
    assert refused.value.retry_after is not None
    assert refused.value.retry_after > timedelta()
    gate.set()
    assert len(await running) == 2
    assert len(await sandbox.execute_batch([PROGRAM] * 3)) == 3


async def test_a_cancelled_batch_leaves_the_queue() -> None:
    async def wait(job: Job) -> Report:
        await asyncio.Event().wait()
        return RIGHT

    executor = ScriptedExecutor(wait)
    sandbox = Sandbox(executor, 2)
    running = asyncio.create_task(sandbox.execute_batch([PROGRAM] * 2))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    executor._script = right
    assert (await sandbox.execute(PROGRAM)).verdict is Verdict.PASSED


async def test_tests_share_the_programs_cpu_time() -> None:
    executor = ScriptedExecutor(right)
    tests = (CallTest((1,), 2), StdioTest("", "2"), StdioTest("", "2"))
    await Sandbox(executor, 10).execute(replace(PROGRAM, tests=tests))
    assert [job.limits.cpu_time.total_seconds() for job in executor.jobs] == [2, 1, 0.01]


async def test_what_cannot_be_compiled_is_run_once() -> None:
    async def broken(job: Job) -> Report:
        return replace(RIGHT, stage=Stage.STARTED, exit_status=1, answers=())

    executor = ScriptedExecutor(broken)
    execution = await Sandbox(executor, 10).execute(replace(PROGRAM, tests=(StdioTest("", ""),) * 5))
    assert execution.verdict is Verdict.COMPILE_ERROR
    assert len(executor.jobs) == 1
    assert execution.tests_total == 5


async def test_a_batch_of_nothing_is_nothing() -> None:
    executor = ScriptedExecutor(right)
    assert await Sandbox(executor, 10).execute_batch([]) == []
    assert not executor.jobs
    assert isinstance(CallJob("", "f", (), Limits()), CallJob)
