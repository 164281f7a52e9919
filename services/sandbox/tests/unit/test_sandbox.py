import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

import pytest

from ratchet_kit.errors import InvalidArgument, ResourceExhausted, Unavailable
from ratchet_kit.work import Priority
from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.jobs import CallJob, End, Job, Report, Returned, Stage
from sandbox_service.domain.program import CallTest, File, Limits, Program, StdioTest
from sandbox_service.domain.sandbox import Sandbox
from sandbox_service.domain.stream import READ_AHEAD, Item, PlatformFault

from ..doubles import ScriptedExecutor

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


class Gate:
    """An executor that holds every job until it's let through, and notes in which order they came."""

    def __init__(self, lanes: int = 1) -> None:
        self.open = asyncio.Event()
        self.killed = 0
        self.executor = ScriptedExecutor(self._script, lanes)

    async def _script(self, job: Job) -> Report:
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)  # as a lane, which is gone only when its process is
            self.killed += 1
            raise
        return RIGHT

    @property
    def order(self) -> list[str]:
        return [job.source for job in self.executor.jobs]


async def _settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_caller_with_thousands_does_not_keep_another_from_its_turn() -> None:
    gate = Gate()
    sandbox = Sandbox(gate.executor, 5000)
    many = asyncio.create_task(sandbox.execute_batch([PROGRAM] * 4000, "a"))
    await _settle()
    one = asyncio.create_task(sandbox.execute(replace(PROGRAM, source="mine"), "b"))
    urgent = asyncio.create_task(sandbox.execute(replace(PROGRAM, source="urgent"), "a", Priority.HIGH))
    await _settle()
    gate.open.set()
    await one
    await urgent
    await many
    assert gate.order.index("urgent") <= 4
    assert gate.order.index("mine") <= 5
    assert len(gate.order) == 4002


async def test_a_queue_that_one_caller_filled_still_takes_anothers_share() -> None:
    gate = Gate()
    sandbox = Sandbox(gate.executor, 10)
    many = asyncio.create_task(sandbox.execute_batch([PROGRAM] * 10, "a"))
    await _settle()
    with pytest.raises(ResourceExhausted):
        await sandbox.execute(PROGRAM, "a")
    with pytest.raises(ResourceExhausted):
        await sandbox.execute_batch([PROGRAM] * 6, "b")
    few = asyncio.create_task(sandbox.execute_batch([PROGRAM] * 5, "b"))
    await _settle()
    gate.open.set()
    assert len(await few) == 5
    assert len(await many) == 10


async def test_what_waits_is_bounded_in_bytes() -> None:
    gate, read = Gate(), 0
    large = replace(PROGRAM, files=(File("data", bytes(40 << 10)),))

    async def batches() -> AsyncIterator[Sequence[Program]]:
        nonlocal read
        for _ in range(5):
            read += 1
            yield [large]

    async def all_of() -> list[Item]:
        return [item async for items in sandbox.execute_stream(batches(), "b") for item in items]

    sandbox = Sandbox(gate.executor, 1000, queue_bytes=100 << 10)
    too_large = replace(PROGRAM, stdin="x" * (200 << 10), tests=())
    one = asyncio.create_task(sandbox.execute(too_large, "a"))  # as nothing waits
    await _settle()
    with pytest.raises(ResourceExhausted, match="0 of 0 MiB: no room for 1 MiB") as refused:
        await sandbox.execute(large, "a")
    assert refused.value.retry_after
    gate.open.set()
    await one
    gate.open.clear()
    stream = asyncio.create_task(all_of())
    await _settle()
    assert read == 3  # two have room, the third waits for it
    with pytest.raises(ResourceExhausted):
        await sandbox.execute(large, "b")
    another = asyncio.create_task(sandbox.execute(large, "c"))  # another's share
    await _settle()
    gate.open.set()
    assert len(await stream) == 5
    assert (await another).verdict is Verdict.PASSED


async def test_cancelling_kills_what_runs_and_takes_out_what_waits() -> None:
    gate = Gate(lanes=2)
    sandbox = Sandbox(gate.executor, 100)
    batch = asyncio.create_task(sandbox.execute_batch([PROGRAM] * 50))
    single = asyncio.create_task(sandbox.execute(PROGRAM))
    await _settle()
    batch.cancel()
    single.cancel()
    await asyncio.gather(batch, single, return_exceptions=True)
    assert batch.cancelled()
    assert single.cancelled()
    assert gate.killed == len(gate.executor.jobs) == 3
    gate.open.set()
    assert len(await sandbox.execute_batch([PROGRAM] * 100)) == 100  # all the room is back, and every slot
    assert len(gate.executor.jobs) == 103


async def test_cancelled_before_its_first_step() -> None:
    gate = Gate()
    sandbox = Sandbox(gate.executor, 1)
    for _ in range(5):
        running = asyncio.create_task(sandbox.execute(PROGRAM))
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait({running})
    gate.open.set()
    async with asyncio.timeout(5):
        assert (await sandbox.execute(PROGRAM)).verdict is Verdict.PASSED


async def test_a_stream_gives_results_as_they_come() -> None:
    gate, asked = Gate(), asyncio.Event()

    async def batches() -> AsyncIterator[Sequence[Program]]:
        yield [replace(PROGRAM, id="0")]
        await asked.wait()
        yield [replace(PROGRAM, id="1"), replace(PROGRAM, id="2")]

    gate.open.set()
    seen: list[tuple[int, str]] = []
    async for items in Sandbox(gate.executor, 10).execute_stream(batches()):
        asked.set()  # only after a first result was there
        seen += [(item.index, item.outcome.program_id) for item in items if isinstance(item.outcome, Execution)]
    assert seen == [(0, "0"), (1, "1"), (2, "2")]


async def test_a_stream_is_not_read_far_ahead_and_never_refused_half_way() -> None:
    gate, read = Gate(), 0

    async def batches() -> AsyncIterator[Sequence[Program]]:
        nonlocal read
        for _ in range(40):
            read += 1
            yield [PROGRAM] * 50

    sandbox = Sandbox(gate.executor, 100)
    stream = sandbox.execute_stream(batches())
    first = asyncio.create_task(anext(stream))
    await _settle()
    assert read == 3  # two fill the queue, the third waits for room
    gate.open.set()
    items = await first
    await asyncio.sleep(0.05)
    assert read <= (len(items) + READ_AHEAD) // 50 + 2  # results that nobody takes count as well
    async for more in stream:
        items += more
    assert sorted(item.index for item in items) == list(range(2000))


async def test_a_stream_ends_with_what_broke_its_input_and_leaves_nothing() -> None:
    gate = Gate()

    async def batches() -> AsyncIterator[Sequence[Program]]:
        yield [PROGRAM] * 5
        raise InvalidArgument("programs[5].source: too long")

    sandbox = Sandbox(gate.executor, 5)
    with pytest.raises(InvalidArgument, match=r"programs\[5\]"):
        async for _ in sandbox.execute_stream(batches()):
            pass
    assert gate.killed == 2
    gate.open.set()
    assert len(await sandbox.execute_batch([PROGRAM] * 5)) == 5


async def test_a_stream_that_is_closed_early_leaves_nothing() -> None:
    gate = Gate()
    gate.open.set()

    async def batches() -> AsyncIterator[Sequence[Program]]:
        while True:
            yield [PROGRAM]
            await asyncio.sleep(0)

    sandbox = Sandbox(gate.executor, 5)
    async with aclosing(sandbox.execute_stream(batches())) as stream:
        await anext(stream)
    assert len(await sandbox.execute_batch([PROGRAM] * 5)) == 5


async def test_a_bug_met_by_one_program_is_its_own_fault_of_the_platform_and_nobody_elses() -> None:
    async def bug(job: Job) -> Report:
        if job.source == "bad":
            raise ZeroDivisionError("bug")
        return RIGHT

    sandbox = Sandbox(ScriptedExecutor(bug), 9)
    bad = replace(PROGRAM, source="bad")
    with pytest.raises(Unavailable, match="ZeroDivisionError"):
        await sandbox.execute(bad)
    items = await sandbox.execute_batch([PROGRAM, bad, PROGRAM])
    assert [type(item) for item in items] == [Execution, PlatformFault, Execution]


T = TypeVar("T")


async def test_while_answers_are_judged_elsewhere_others_have_their_turn() -> None:
    judging, go_on = asyncio.Event(), asyncio.Event()

    async def elsewhere(function: Callable[..., T], *arguments: object) -> T:
        judging.set()
        await go_on.wait()
        return function(*arguments)

    async def script(job: Job) -> Report:
        return replace(RIGHT, stdout="2" + " " * 99_999) if job.source == "large" else RIGHT

    sandbox = Sandbox(ScriptedExecutor(script, lanes=1), 100, aside=elsewhere)
    large = replace(PROGRAM, source="large", tests=(StdioTest("", "2"),))
    waiting = asyncio.create_task(sandbox.execute_batch([large] * 9))
    await judging.wait()
    go_on.set()
    assert (await sandbox.execute(PROGRAM)).verdict is Verdict.PASSED
    assert [one.verdict for one in await waiting if isinstance(one, Execution)] == [Verdict.PASSED] * 9
    go_on.clear()
    held = [asyncio.create_task(sandbox.execute(large)) for _ in range(4)]
    await asyncio.sleep(0.01)
    assert (await sandbox.execute(PROGRAM)).verdict is Verdict.PASSED
    go_on.set()
    await asyncio.gather(*held)
