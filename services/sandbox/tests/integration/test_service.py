"""The service from outside: through gRPC in this process, and as the process that users start."""

import asyncio
import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import grpc
import psutil
import pytest
import pytest_asyncio

from ratchet.common.v1 import priority_pb2, verdict_pb2
from ratchet.common.v1 import problem_pb2 as common
from ratchet.sandbox.v1 import diagnostics_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_environments import Task, judge, own
from ratchet_environments.code import CodeEnvironment
from ratchet_environments.executor import Executor
from ratchet_environments.sandbox import GrpcSandbox
from ratchet_kit.client import channel, wait_healthy
from ratchet_kit.errors import InvalidArgument, NotFound, ResourceExhausted
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_problems.problem import CallTest, CheckTest, Problem
from ratchet_rewards import Component, Grade
from ratchet_testing.processes import children, computing
from sandbox_service.settings import Settings

from ..node import SERVICE, Stubs, serving

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

ADD = pb.Program(
    id="add",
    source="def f(x):\n    return x + 1\n",
    entry_point="f",
    tests=[common.Test(call=common.CallTest(args="[1]", expected="2"))],
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door() -> AsyncIterator[grpc.aio.Channel]:
    settings = Settings(port=0, lanes=2)
    async with serving(settings, queue_limit=300) as address:
        async with channel(address) as door:
            yield door


@pytest.fixture
def stub(door: grpc.aio.Channel) -> Stubs:
    return Stubs.of(door)


async def test_execute(stub: Stubs) -> None:
    execution = (await stub.programs.Execute(pb.ExecuteRequest(program=ADD))).execution
    assert (execution.id, execution.verdict, execution.tests_passed, execution.tests_total) == ("add", 1, 1, 1)
    assert execution.results[0] == pb.TestResult(passed=True, got="2", expected="2", by_values=True)
    assert execution.cpu_time.ToTimedelta() > timedelta()
    assert "rlimits" in execution.isolation_layers


async def test_a_batch_is_in_order(stub: Stubs) -> None:
    programs = [pb.Program(id=str(i), source=f"print({i})") for i in range(256)]
    items = await _batch(stub, programs)
    assert [item.execution.stdout for item in items] == [f"{i}\n" for i in range(256)]


async def test_grade(stub: Stubs) -> None:
    problem = common.Problem(id="p", prompt='def f(x):\n    """One more."""\n', entry_point="f")
    problem.tests.add(call=common.CallTest(args="[1]", expected="2"))
    graded = await stub.programs.Grade(pb.GradeRequest(completion="    return x + 1\n", problem=problem))
    assert graded.execution.verdict == verdict_pb2.VERDICT_PASSED
    assert graded.source == problem.prompt + "    return x + 1\n"
    fenced = "Here:\n```python\ndef f(x):\n    return x\n```\nDone."
    assert (
        await stub.programs.Grade(pb.GradeRequest(completion=fenced, problem=problem))
    ).execution.verdict == verdict_pb2.VERDICT_FAILED
    del problem.tests[:]
    with pytest.raises(InvalidArgument, match=r"problem\.tests"), rpc_errors():
        await stub.programs.Grade(pb.GradeRequest(completion="x", problem=problem))


async def test_the_benchmark_measures_against_the_fork_limit(stub: Stubs) -> None:
    found = [one async for one in stub.diagnostics.Benchmark(diagnostics_pb2.BenchmarkRequest(programs=100))]
    assert [one.name for one in found][:2] == ["fork limit", "call tests"]
    assert all(0 < one.of_limit <= 1 for one in found), found
    assert all(one.p99.ToTimedelta() >= one.p50.ToTimedelta() > timedelta() for one in found[1:])


async def test_capabilities(stub: Stubs) -> None:
    capabilities = await stub.programs.GetCapabilities(pb.GetCapabilitiesRequest())
    assert capabilities.lanes == 2
    assert capabilities.python_version.startswith("3.")
    assert capabilities.max_limits.memory_bytes == 4 << 30
    assert "no-new-privs" in capabilities.isolation_layers


async def test_what_isolates_is_shown(stub: Stubs) -> None:
    capabilities = await stub.programs.GetCapabilities(pb.GetCapabilitiesRequest())
    assert capabilities.level in (pb.ISOLATION_LEVEL_L1, pb.ISOLATION_LEVEL_L2, pb.ISOLATION_LEVEL_L3)
    assert bool(capabilities.missing_layers) == (capabilities.level != pb.ISOLATION_LEVEL_L3)
    assert (await stub.programs.Execute(pb.ExecuteRequest(program=ADD))).execution.level == capabilities.level


async def test_an_audit_tells_of_each_attack(stub: Stubs) -> None:
    findings = [
        one async for one in stub.diagnostics.Audit(diagnostics_pb2.AuditRequest(attacks=["exit_zero", "other_files"]))
    ]
    told = {one.attack: (one.kind, one.caught, one.verdict) for one in findings}
    assert told["exit_zero"] == (diagnostics_pb2.ATTACK_KIND_FAKE_A_PASS, True, verdict_pb2.VERDICT_RUNTIME_ERROR)
    assert told["other_files"] == (diagnostics_pb2.ATTACK_KIND_BREAK_OUT, True, verdict_pb2.VERDICT_FAILED)
    assert {one.total for one in findings} == {len(findings)}
    assert all(one.title for one in findings)


async def test_an_attack_that_is_none(stub: Stubs) -> None:
    with pytest.raises(NotFound, match="nothing"), rpc_errors():
        async for _ in stub.diagnostics.Audit(diagnostics_pb2.AuditRequest(attacks=["nothing"])):
            pass


async def test_faults_of_a_request_are_named(stub: Stubs) -> None:
    bad = pb.Program(entry_point="f", tests=[common.Test(call=common.CallTest(args="f()", expected="2"))])
    with pytest.raises(InvalidArgument) as refused, rpc_errors():
        await _batch(stub, [ADD, bad])
    assert [violation.field for violation in refused.value.violations] == ["programs[1].tests[0].call.args"]
    big = pb.Program(source="x" * (10 << 20))
    with pytest.raises(InvalidArgument, match=r"program\.source"), rpc_errors():
        await stub.programs.Execute(pb.ExecuteRequest(program=big))


async def test_nothing_to_run_is_no_program_that_passes(stub: Stubs) -> None:
    for program in (pb.Program(), pb.Program(stdin="1", id="forgotten")):
        with pytest.raises(InvalidArgument, match=r"program\.source must be there"), rpc_errors():
            await stub.programs.Execute(pb.ExecuteRequest(program=program))


async def test_text_that_is_not_utf_8_is_the_callers_fault(door: grpc.aio.Channel) -> None:
    for field in (b"\x12\x01\xff", b"\x1a\x01\xff"):  # Program.source and entry_point
        request = b"\x0a" + bytes([len(field)]) + field
        with pytest.raises(InvalidArgument, match="UTF-8"), rpc_errors():
            await door.unary_unary(f"/{SERVICE}/Execute")(request)
        stream = door.stream_stream(f"/{SERVICE}/StreamExecute")
        with pytest.raises(InvalidArgument, match="UTF-8"), rpc_errors():
            async for _ in stream(iter([pb.StreamExecuteRequest(programs=[ADD]).SerializeToString(), request])):
                pass


async def test_a_full_queue_asks_to_come_back(stub: Stubs) -> None:
    sleeper = pb.Program(source="import time; time.sleep(1)")
    first = asyncio.create_task(_batch(stub, [sleeper] * 2 + [ADD] * 200))
    await asyncio.sleep(0.3)
    with pytest.raises(ResourceExhausted) as refused, rpc_errors():
        await _batch(stub, [ADD] * 250)
    assert refused.value.retry_after is not None
    assert all(item.execution.verdict == verdict_pb2.VERDICT_PASSED for item in await first)


async def _batch(stub: Stubs, programs: list[pb.Program]) -> list[pb.ExecutionItem]:
    items: list[pb.ExecutionItem] = []
    async for response in stub.programs.StreamExecute(iter([pb.StreamExecuteRequest(programs=programs)])):
        items += response.items
    return sorted(items, key=lambda item: item.index)


async def test_a_stream_goes_both_ways(stub: Stubs) -> None:
    call = stub.programs.StreamExecute()
    for i in range(3):
        await call.write(pb.StreamExecuteRequest(programs=[ADD] * (i + 1)))
        items = []
        while len(items) <= i:
            items += (await call.read()).items
        assert sorted(item.index for item in items) == [[0], [1, 2], [3, 4, 5]][i]
        assert all(item.execution.verdict == verdict_pb2.VERDICT_PASSED for item in items)
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF


async def test_a_later_fault_is_named_by_its_place_in_the_stream(stub: Stubs) -> None:
    bad = pb.Program(entry_point="f", tests=[common.Test()])
    requests = [
        pb.StreamExecuteRequest(programs=[ADD] * 10),
        pb.StreamExecuteRequest(programs=[ADD, bad]),
    ]
    with pytest.raises(InvalidArgument) as refused, rpc_errors():
        async for _ in stub.programs.StreamExecute(iter(requests)):
            pass
    assert [violation.field for violation in refused.value.violations] == ["programs[11].tests[0]"]


async def test_a_long_stream_is_never_refused(stub: Stubs) -> None:
    """Twice as long as the service's queue."""
    seen = [
        item.index
        async for response in stub.programs.StreamExecute(iter([pb.StreamExecuteRequest(programs=[ADD] * 100)] * 6))
        for item in response.items
    ]
    assert sorted(seen) == list(range(600))


@pytest.mark.parametrize("batch", [False, True])
async def test_cancelling_a_call_kills_its_programs(stub: Stubs, batch: bool) -> None:
    endless = pb.Program(source="while True: pass")
    endless.limits.cpu_time.FromTimedelta(timedelta(seconds=50))
    if batch:
        call = stub.programs.StreamExecute(iter([pb.StreamExecuteRequest(programs=[endless] * 100)]))
        waiting = asyncio.create_task(call.read())
    else:
        call = stub.programs.Execute(pb.ExecuteRequest(program=endless))
        waiting = asyncio.create_task(asyncio.wait_for(call, 60))
    await asyncio.sleep(0.5)
    assert computing(children(recursive=True))
    call.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(5):
        while computing(children(recursive=True)):
            await asyncio.sleep(0.05)
        assert (
            await stub.programs.Execute(pb.ExecuteRequest(program=ADD))
        ).execution.verdict == verdict_pb2.VERDICT_PASSED


async def test_priorities_and_callers_are_taken(stub: Stubs) -> None:
    busy = asyncio.create_task(_batch(stub, [ADD] * 250))
    await asyncio.sleep(0.02)
    started = time.monotonic()
    urgent = pb.ExecuteRequest(program=ADD, priority=priority_pb2.PRIORITY_HIGH, caller="somebody else")
    assert (await stub.programs.Execute(urgent)).execution.verdict == verdict_pb2.VERDICT_PASSED
    assert not busy.done(), time.monotonic() - started
    await busy
    with pytest.raises(InvalidArgument, match="priority"), rpc_errors():
        await stub.programs.Execute(pb.ExecuteRequest(program=ADD, priority=77))  # type: ignore[arg-type]


async def test_the_grader_of_trainer_and_eval(door: grpc.aio.Channel) -> None:
    tests = (
        CallTest.of([1], 2),
        CallTest.of([2], 3),
        CheckTest("def check(candidate):\n    assert candidate(7) == 8\n"),
    )
    problem = Problem("p", "Write f(x) that adds one.", tests, entry_point="f")
    right = "Sure:\n```python\ndef f(x):\n    return x + 1\n```"
    async with Executor(GrpcSandbox(door)) as executor:
        environment = CodeEnvironment(executor)
        answers = [right, "def f(x): return 2", "def f(x", "no"] * 40
        outcomes = await asyncio.gather(*(judge(environment, Task.of(problem), text) for text in answers))
    assert [one.grade.tests_passed for one in outcomes] == [3, 1, 0, 0] * 40
    assert [one.grade.verdict for one in outcomes[:3]] == ["PASSED", "FAILED", "COMPILE_ERROR"]


async def test_a_reward_of_ones_own_reads_samples_and_prints_scores(door: grpc.aio.Channel) -> None:
    program = (
        "import json, sys\n"
        "samples = json.load(sys.stdin)['samples']\n"
        "if __name__ == '__main__':\n"
        "    print(json.dumps([len(one['source']) if one['passed'] else None for one in samples]))\n"
    )
    problem = Problem("p", "Write f.", (CallTest.of([1], 2),), entry_point="f")
    samples = [own.Sample("é", "é", Grade("PASSED", 1, 1)), own.Sample("", "", Grade("FAILED", 0, 1))] * 20
    async with Executor(GrpcSandbox(door)) as executor:
        found = await own.scores(executor, Component("loud", program=program), problem, samples)
        with pytest.raises(InvalidArgument, match="the reward loud ended in RUNTIME_ERROR: KeyError: 1"):
            await own.scores(executor, Component("loud", program="{}[1]"), problem, samples)
    assert [found[0], math.isnan(found[1]), len(found)] == [1.0, True, 40]


async def test_the_executor_finds_the_bad_among_many(door: grpc.aio.Channel) -> None:
    """More of them than one refusal has room to name."""
    bad = pb.Program(source=ADD.source, entry_point="f", tests=[common.Test()])
    programs = [bad if i % 10 else ADD for i in range(250)]
    async with Executor(GrpcSandbox(door)) as executor:
        ends = await asyncio.gather(*map(executor.execute, programs), return_exceptions=True)
    for program, end in zip(programs, ends, strict=True):
        assert isinstance(end, InvalidArgument if program is bad else pb.Execution), end


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start(port: int, folder: Path, **environment: str) -> subprocess.Popen[bytes]:
    settings = {"RATCHET_SANDBOX_PORT": str(port), "RATCHET_SANDBOX_LANES": "2", "TMPDIR": str(folder), **environment}
    command = [sys.executable, "-m", "sandbox_service.main"]
    return subprocess.Popen(command, env={**os.environ, **settings}, stderr=subprocess.PIPE)


async def _run_something_long(port: int) -> asyncio.Task[None]:
    async def run() -> None:
        async with channel(f"127.0.0.1:{port}") as door:
            program = pb.Program(source="while True: pass")
            program.limits.cpu_time.FromTimedelta(timedelta(seconds=50))
            await _batch(Stubs.of(door), [program] * 2)

    task = asyncio.create_task(run())
    await asyncio.sleep(0.5)
    return task


@pytest.mark.parametrize(("signal", "status"), [("terminate", 0), ("kill", -9)])
async def test_its_end_leaves_nothing_behind(signal: str, status: int, port: int, tmp_path: Path) -> None:
    """SIGTERM drains for a while; SIGKILL gives no chance to clean up. Both with programs under way."""
    process = _start(port, tmp_path, RATCHET_SANDBOX_GRACE="0.2")
    try:
        await wait_healthy(f"127.0.0.1:{port}", timedelta(seconds=20))
        call = await _run_something_long(port)
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) == 2 * 3  # each lane's keeper, its zygote, and a program
    finally:
        getattr(process, signal)()
        code = await asyncio.to_thread(process.wait, 15)
    call.cancel()
    assert code == status
    _, left = psutil.wait_procs(family, timeout=3)
    assert left == []
    assert _content(tmp_path) == []


async def test_refuses_to_start_on_a_port_in_use_in_one_sentence(port: int, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        process = _start(port, tmp_path)
        _, errors = await asyncio.to_thread(process.communicate, timeout=20)
    last = errors.decode().strip().splitlines()[-1]
    assert process.returncode == 1
    assert last.startswith("sandbox: ")
    assert str(port) in last
    deadline = time.monotonic() + 3
    while _content(tmp_path) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    assert _content(tmp_path) == []


def _content(folder: Path) -> list[str]:
    return os.listdir(folder)
