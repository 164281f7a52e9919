"""What is told of held-out tests beside their verdict: nothing, and that not too often."""

import asyncio
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from ratchet_kit.errors import ResourceExhausted
from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.held_out import Attempts
from sandbox_service.domain.jobs import CallJob, End, Job, Report, Returned, ScriptJob, Stage
from sandbox_service.domain.program import CallTest, CheckTest, Limits, Program, StdioTest
from sandbox_service.domain.sandbox import Sandbox
from sandbox_service.domain.stream import PlatformFault

from ..doubles import ScriptedExecutor

HELD_OUT = (CallTest((1,), 2, held_out=True), CheckTest("assert f(1) == 2", held_out=True))
PROGRAM = Program("p", "source", "f", HELD_OUT, limits=Limits(cpu_time=timedelta(seconds=2)))
RIGHT = Report(
    End.EXITED,
    0,
    Stage.ENDED,
    timedelta(seconds=1),
    timedelta(seconds=1),
    ("scripted",),
    answers=(Returned(2),),
    stdout="2",
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_attempts_are_bounded_by_caller_and_by_tests_within_a_day() -> None:
    clock = Clock()
    attempts = Attempts(2, clock)
    for source in ("a", "b"):
        attempts.count(replace(PROGRAM, source=source), "me")
    with pytest.raises(ResourceExhausted, match=r"me has tried these held-out tests 2 times within a day.*tomorrow"):
        attempts.count(PROGRAM, "me")
    attempts.count(PROGRAM, "you")
    attempts.count(replace(PROGRAM, tests=HELD_OUT[:1]), "me")
    attempts.count(replace(PROGRAM, tests=(StdioTest("a", "b", held_out=True),)), "me")
    for _ in range(9):
        attempts.count(replace(PROGRAM, tests=(CallTest((1,), 2),)), "me")
    clock.now = 86400
    attempts.count(PROGRAM, "me")


def test_nothing_is_bounded_unless_asked() -> None:
    attempts = Attempts(0)
    for _ in range(9):
        attempts.count(PROGRAM, "me")


async def test_beyond_the_bound_a_program_is_refused_and_its_neighbours_are_not() -> None:
    async def right(job: Job) -> Report:
        return RIGHT

    sandbox = Sandbox(ScriptedExecutor(right), 10, held_out_attempts=1)
    test = (CallTest((1,), 2, held_out=True),)
    assert (await sandbox.execute(replace(PROGRAM, tests=test), "me")).verdict is Verdict.PASSED
    with pytest.raises(ResourceExhausted, match="RATCHET_SANDBOX_HELD_OUT_ATTEMPTS"):
        await sandbox.execute(replace(PROGRAM, tests=test), "me")
    programs = [replace(PROGRAM, tests=test), replace(PROGRAM, tests=(CallTest((1,), 2),))]
    items = await sandbox.execute_batch(programs, "me")
    assert [type(item) for item in items] == [PlatformFault, Execution]


async def test_how_long_a_held_out_test_took_is_not_told_by_the_limits_of_visible_ones_or_by_which_are_reached() -> (
    None
):
    async def script(job: Job) -> Report:
        if isinstance(job, CallJob) and job.calls == (("hidden",),):
            return replace(RIGHT, end=End.CPU, cpu_time=timedelta(seconds=2), answers=(), stage=Stage.LOADED)
        return RIGHT

    executor = ScriptedExecutor(script)
    tests = (CallTest((1,), 2), CallTest(("hidden",), 2, held_out=True), StdioTest("", "2"), *HELD_OUT)
    execution = await Sandbox(executor, 10).execute(replace(PROGRAM, tests=tests))
    seen = [(type(job), job.limits.cpu_time.total_seconds()) for job in executor.jobs]
    assert seen == [(CallJob, 2), (CallJob, 1), (ScriptJob, 1)]
    assert execution.verdict is Verdict.FAILED
    assert [(one.passed, one.held_out) for one in execution.results] == [
        (True, False),
        (False, True),
        (True, False),
        (False, True),
        (False, True),
    ]
    assert execution.cpu_time == timedelta(seconds=2)


async def test_answers_about_held_out_tests_come_at_one_of_few_times() -> None:
    async def script(job: Job) -> Report:
        await asyncio.sleep(float(job.source))
        return RIGHT

    sandbox = Sandbox(ScriptedExecutor(script), 10)

    async def time_of(seconds: float) -> float:
        started = time.monotonic()
        await sandbox.execute(replace(PROGRAM, source=str(seconds), tests=HELD_OUT[:1]))
        return time.monotonic() - started

    took = await asyncio.gather(*map(time_of, (0.0, 0.05, 0.1)))
    assert min(took) > 0.24
    assert max(took) - min(took) < 0.05 or max(took) > 0.99  # the latter on a machine that is busy
    took = await asyncio.gather(*map(time_of, (0.3, 0.5, 0.7)))
    assert min(took) > 0.99
    assert max(took) - min(took) < 0.1 or max(took) > 3.9
