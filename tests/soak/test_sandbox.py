"""What only shows after many programs: `make soak`, eight minutes or so on two cores.

Through a sandbox-service of its own and its public API. SOAK_PROGRAMS (default 100,000) and SOAK_REFERENCES (default
20,000) shorten it.
"""

import asyncio
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain, cycle, islice
from pathlib import Path

import psutil
import pytest

import sandbox_service
from ratchet.common.v1 import problem_pb2, verdict_pb2
from ratchet.sandbox.v1 import program_pb2, program_pb2_grpc
from ratchet_environments import Task
from ratchet_environments.programs import program_for
from ratchet_kit.client import channel, wait_healthy
from ratchet_problems import load
from ratchet_testing import free_port

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.timeout(3600)]

CORES = len(os.sched_getaffinity(0))
PROGRAMS = int(os.environ.get("SOAK_PROGRAMS", "100000"))
REFERENCES = int(os.environ.get("SOAK_REFERENCES", "20000"))
ATTACKS = Path(sandbox_service.__file__).parent / "attacks"
BATCH = 250


@dataclass(frozen=True)
class Service:
    process: psutil.Process
    target: str
    folder: Path

    def traces(self) -> dict[str, object]:
        """What programs could leave behind."""
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        return {
            "processes": len(self.process.children(recursive=True)),
            "descriptors": self.process.num_fds(),
            "mounts": len(mounts),
            "cgroups": sum(1 for path in Path("/sys/fs/cgroup").glob(f"**/ratchet-sandbox-{self.process.pid}-*")),
            "folders": sorted(os.listdir(self.folder)),
        }


def service(folder: Path, lanes: int) -> Iterator[Service]:
    port = free_port()
    settings = {
        "RATCHET_SANDBOX_PORT": str(port),
        "RATCHET_SANDBOX_METRICS_PORT": "0",
        "RATCHET_SANDBOX_LANES": str(lanes),
        "RATCHET_SANDBOX_IDLE_EXTRA": "PT0.2S" if lanes == CORES else "PT1S",
        "TMPDIR": str(folder),
        "DATABASE_URL": "",
        "REDIS_URL": "",
    }
    process = subprocess.Popen([sys.executable, "-m", "sandbox_service.main"], env=os.environ | settings)
    try:
        yield Service(psutil.Process(process.pid), f"127.0.0.1:{port}", folder)
    finally:
        process.terminate()
        process.wait(30)


def references() -> list[program_pb2.Program]:
    problems = chain(load("composed/train"), load("basics"))
    return [program_for(Task.of(problem), problem.references[0]) for problem in problems]


def hostile() -> list[program_pb2.Program]:
    """The shipped attacks on call tests, with a tenth of a second each; all ask for f(1) == 2."""
    limits = problem_pb2.Limits(memory_bytes=128 << 20)
    limits.cpu_time.FromTimedelta(timedelta(seconds=0.1))
    tests = [problem_pb2.Test(call=problem_pb2.CallTest(args="[1]", expected="2"))]
    sources = {path.stem: path.read_text() for path in sorted(ATTACKS.glob("*.py")) if path.stem != "__init__"}
    return [
        program_pb2.Program(id=f"attack:{name}", source=source, entry_point="f", tests=tests, limits=limits)
        for name, source in sources.items()
        if "Test:" not in source and "\ndef f(" in source
    ]


async def run(target: str, programs: Iterable[program_pb2.Program]) -> AsyncIterator[program_pb2.ExecutionItem]:
    """Raises what the stream raises; an item for each program, as it comes."""
    programs = iter(programs)

    async def requests() -> AsyncIterator[program_pb2.StreamExecuteRequest]:
        while batch := list(islice(programs, BATCH)):
            yield program_pb2.StreamExecuteRequest(programs=batch)

    async with channel(target) as door:
        await wait_healthy(target, timedelta(seconds=60))
        async for response in program_pb2_grpc.ProgramServiceStub(door).StreamExecute(requests(), timeout=3000):
            for item in response.items:
                yield item


def test_nothing_is_lost_over_many_programs(tmp_path: Path) -> None:
    """One in ten is hostile."""
    good, bad = references(), hostile()
    assert len(bad) >= 40
    order = random.Random(0)
    kinds = [bad if order.random() < 0.1 else good for _ in range(PROGRAMS)]
    programs = [order.choice(kind) for kind in kinds]

    async def soak(target: str, process: psutil.Process) -> tuple[Counter[str], list[int]]:
        verdicts: Counter[str] = Counter()
        memory: list[int] = []
        done = 0
        async for item in run(target, programs):
            assert not item.platform_error, item.platform_error
            one = item.execution
            name = "attack" if one.id.startswith("attack:") else "reference"
            verdicts[f"{name} {verdict_pb2.Verdict.Name(one.verdict)}"] += 1
            done += 1
            if done % (PROGRAMS // 10) == 0:
                memory.append(process.memory_info().rss)
                print(f"{done} programs, {memory[-1] >> 20} MiB, {dict(verdicts)}", flush=True)
        return verdicts, memory

    for running in service(tmp_path, CORES):
        asyncio.run(settle(running.target, [*good[:200], *bad]))
        before = running.traces()
        verdicts, memory = asyncio.run(soak(running.target, running.process))
        assert running.traces() == before
    assert sum(verdicts.values()) == PROGRAMS
    assert verdicts["reference VERDICT_PASSED"] == sum(kind is good for kind in kinds)
    assert verdicts["attack VERDICT_PASSED"] == 0
    assert max(memory[2:]) <= 1.05 * memory[2], [size >> 20 for size in memory]
    assert os.listdir(tmp_path) == []


def test_no_false_verdict_under_load(tmp_path: Path) -> None:
    """Four times as many programs at a time as cores, beside as many processes that only compute."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(CORES)]
    wrong: list[str] = []
    try:
        for running in service(tmp_path, 4 * CORES):
            wrong = asyncio.run(false_verdicts(running.target, islice(cycle(references()), REFERENCES)))
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    assert wrong == []


async def settle(target: str, programs: list[program_pb2.Program]) -> None:
    async for _ in run(target, programs):
        pass


async def false_verdicts(target: str, programs: Iterable[program_pb2.Program]) -> list[str]:
    wrong, done = [], 0
    async for item in run(target, programs):
        done += 1
        if item.platform_error or item.execution.verdict != verdict_pb2.VERDICT_PASSED:
            wrong.append(f"{item.execution.id}: {item.platform_error or item.execution.detail}")
    assert done == REFERENCES
    return wrong
