"""Lanes that are lost, jobs that are cancelled, batches that are long."""

import asyncio
import contextlib
import os
import signal
import time
from dataclasses import replace
from datetime import timedelta

import psutil
import pytest

from ratchet_testing.processes import children, computing
from sandbox_service.adapters.lanes.pool import LanePool
from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.jobs import CallJob, CheckJob
from sandbox_service.domain.program import CallTest, CheckTest, File, Limits, Program, StdioTest
from sandbox_service.domain.sandbox import Sandbox

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]
LIMITS = Limits(cpu_time=timedelta(seconds=1), memory_bytes=256 << 20)


def program(source: str, test: CallTest | CheckTest = CallTest((1,), 2)) -> Program:
    return Program("p", source, "f", (test,), limits=LIMITS)


@pytest.mark.parametrize("victim", ["the keeper", "the zygote"])
async def test_a_lost_lane_is_retried_and_nobody_notices(victim: str, sandbox: Sandbox) -> None:
    running = asyncio.create_task(
        sandbox.execute(program("import time\ndef f(x):\n    time.sleep(0.3)\n    return 2", CallTest((1,), 2)))
    )
    await asyncio.sleep(0.15)
    for process in {"the keeper": children(), "the zygote": _zygotes()}[victim]:
        os.kill(process.pid, signal.SIGKILL)
    assert (await running).verdict is Verdict.PASSED


async def test_a_program_whose_lanes_are_lost_each_time_gets_a_verdict(sandbox: Sandbox) -> None:
    size = 80 << 20
    source = f"import time\ndef f(x):\n    held = b'1' * {size}\n    time.sleep(1.2)\n    return 2"
    running = asyncio.create_task(sandbox.execute(program(source)))
    while not running.done():
        with contextlib.suppress(psutil.NoSuchProcess):
            # by what it holds: a lane that starts has processes, too, and their loss would be none of the program's
            held = {job.pid for job in _programs() if job.memory_info().rss > size}
            for process in children():
                if held & {below.pid for below in process.children(recursive=True)}:
                    process.kill()
        await asyncio.sleep(0.05)
    execution = await running
    assert (execution.verdict, execution.results[0].passed) == (Verdict.RUNTIME_ERROR, False)
    assert "took down the lane that it ran in, each time" in execution.detail
    assert (await sandbox.execute(program("f = lambda x: 2"))).verdict is Verdict.PASSED


SLEEPS = "import time\ndef f(x):\n    time.sleep(0.3)\n    return 2"
SENT = [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP]


async def _killed(running: "asyncio.Task[Execution]", number: signal.Signals, times: int, which: slice) -> Execution:
    """Its processes, from outside, once each run of it is under way."""
    seen: set[int] = set()
    while not running.done():
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            new = {job.pid for job in _programs() if time.time() - job.create_time() > 0.15} - seen
            if new and times:
                seen |= new
                times -= 1
                for pid in sorted(new)[which]:
                    os.kill(pid, number)
        await asyncio.sleep(0.02)
    return await running


@pytest.mark.parametrize("number", SENT)
async def test_a_program_that_somebody_kills_is_judged_again(number: signal.Signals, sandbox: Sandbox) -> None:
    running = asyncio.create_task(sandbox.execute(program(SLEEPS)))
    assert (await _killed(running, number, 2, slice(None))).verdict is Verdict.PASSED


@pytest.mark.parametrize("which", [slice(1), slice(1, 2)], ids=["the program", "its tests"])
async def test_a_check_test_whose_process_somebody_kills_is_judged_again(which: slice, sandbox: Sandbox) -> None:
    running = asyncio.create_task(sandbox.execute(program(SLEEPS, CheckTest("x = 1\nassert f(1) == 1 + x"))))
    assert (await _killed(running, signal.SIGKILL, 1, which)).verdict is Verdict.PASSED


async def test_a_script_that_may_start_processes_and_is_killed_is_judged_again(sandbox: Sandbox) -> None:
    if not sandbox.capabilities.processes:
        pytest.skip("processes cannot be held here")
    script = Program("p", "import time\ntime.sleep(0.3)\nprint(1)", "", (StdioTest("", "1"),), limits=LIMITS)
    running = asyncio.create_task(sandbox.execute(replace(script, processes=True)))
    assert (await _killed(running, signal.SIGKILL, 1, slice(None))).verdict is Verdict.PASSED


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os.kill(os.getpid(), 15)", "os.abort()"])
@pytest.mark.parametrize("test", [CallTest((1,), 2), CheckTest("x = 1\nassert f(1) == 1 + x")])
async def test_a_program_that_ends_itself_has_a_verdict(end: str, test: CallTest | CheckTest, sandbox: Sandbox) -> None:
    execution = await sandbox.execute(program(f"import os\ndef f(x):\n    {end}\n    return 2", test))
    assert execution.verdict is Verdict.RUNTIME_ERROR
    assert "was killed by SIG" in execution.detail


KILLER = """
import os, signal
while True:
    try:
        os.kill(-1, signal.SIGKILL)
    except OSError:
        pass
"""


async def test_a_program_that_kills_its_tester_at_birth_gets_its_verdict_and_the_lane_stays(sandbox: Sandbox) -> None:
    """Whether the tester has read the tests by then is a matter of luck: each time must come out the same."""
    if not sandbox.capabilities.processes:
        pytest.skip("processes cannot be held here")
    killer = replace(program(KILLER, CheckTest("assert f(1) == 2")), processes=True)
    await sandbox.execute(killer)
    before = {child.pid for child in children()}
    limits = replace(LIMITS, cpu_time=timedelta(seconds=0.1))
    executions = await sandbox.execute_batch([replace(killer, limits=limits)] * 24)
    assert {execution.verdict for execution in executions} <= {Verdict.RUNTIME_ERROR, Verdict.TIME_LIMIT}
    assert before <= {child.pid for child in children()}


async def test_files_that_do_not_fit_are_the_programs_error_and_the_lane_stays(sandbox: Sandbox) -> None:
    before = {child.pid for child in children()}
    many = tuple(File("/".join([str(i), *["d"] * 490, "x"]), b"") for i in range(12))
    execution = await sandbox.execute(replace(program("f = lambda x: 2"), files=many))
    assert execution.verdict in (Verdict.COMPILE_ERROR, Verdict.PASSED)  # the latter where its folder has no bound
    assert before <= {child.pid for child in children()}


async def test_cancelling_kills_the_program(executor: LanePool) -> None:
    job = CallJob("def f(x):\n    while True: pass", "f", ((1,),), replace(LIMITS, cpu_time=timedelta(seconds=50)))
    running = asyncio.create_task(executor.run(job))
    while not computing(_programs()):
        await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.sleep(0.1)
    assert not computing(_programs())


def _programs() -> list[psutil.Process]:
    return [job for zygote in _zygotes() for job in zygote.children()]


def _zygotes() -> list[psutil.Process]:
    return [zygote for keeper in children() for zygote in keeper.children()]


async def test_a_large_batch_under_way_is_in_order(sandbox: Sandbox) -> None:
    programs = [replace(program(f"f = lambda x: {i % 3}", CallTest((1,), 2)), id=str(i)) for i in range(300)]
    executions = await sandbox.execute_batch(programs)
    assert [execution.program_id for execution in executions] == [str(i) for i in range(300)]
    assert [execution.verdict is Verdict.PASSED for execution in executions] == [i % 3 == 2 for i in range(300)]


async def test_the_result_says_what_the_program_ran_under(sandbox: Sandbox) -> None:
    execution = await sandbox.execute(program("f = lambda x: 2"))
    assert {"no-new-privs", "rlimits", "clean-environment"} <= set(execution.layers)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read another process's memory")
async def test_no_process_holds_what_it_must_not_know(executor: LanePool, sandbox: Sandbox) -> None:
    """Read from outside, all of it: the tests are in the tester alone, the program in its own process alone.

    What ran before in the same lane is nowhere at all: the keeper, whose memory all inherit, never held it.
    """
    earlier = program("# EARLIER-" + "PROGRAM\nf = lambda x: 2", CheckTest("# EARLIER-" + "TESTS\nassert f(1) == 2"))
    for _ in range(4):
        assert (await sandbox.execute(earlier)).verdict is Verdict.PASSED
    source = "# THE-" + "PROGRAM\nimport time\ndef f(x):\n    time.sleep(60)\n"
    patient = replace(LIMITS, cpu_time=timedelta(seconds=50))
    job = CheckJob(source, "f", "# THE-" + "TESTS\nassert f(1) == 2", False, patient)
    running = asyncio.create_task(executor.run(job))
    while len(jobs := _programs()) < 2:
        await asyncio.sleep(0.05)
    marks = ["THE-" + "PROGRAM", "THE-" + "TESTS", "EARLIER-" + "PROGRAM", "EARLIER-" + "TESTS"]
    for _ in range(100):
        await asyncio.sleep(0.05)  # until both have read what is theirs
        found = sorted([mark for mark in marks if mark.encode() in _memory(job.pid)] for job in jobs)
        if all(found):
            break
    assert found == [["THE-" + "PROGRAM"], ["THE-" + "TESTS"]]
    assert not any(mark.encode() in _memory(one.pid) for one in (*children(), *_zygotes()) for mark in marks)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def _memory(pid: int) -> bytes:
    content = bytearray()
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            bounds, rights = line.split()[:2]
            start, end = (int(part, 16) for part in bounds.split("-"))
            if "w" in rights and "[v" not in line:
                memory.seek(start)
                content += memory.read(end - start)
    return bytes(content)
