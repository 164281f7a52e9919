"""Programs as they come to a sandbox, honest and hostile, and a sandbox-service of one's own to bring them to."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from pathlib import Path

import psutil

from ratchet.common.v1 import problem_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet.sandbox.v1 import program_pb2_grpc
from ratchet_kit.client import channel, wait_healthy
from ratchet_testing import free_port, weaker
from sandbox_service import honest
from sandbox_service.adapters import attack_suite
from sandbox_service.domain.execution import Verdict
from sandbox_service.domain.program import CallTest, CheckTest, StdioTest

CORES = len(os.sched_getaffinity(0))
BATCH = 50
# Each level, and how a service comes to it: as nobody, and before its first import.
LEVELS = {
    "L3": (False, ""),
    "L2": (True, ""),
    "L1": (True, "from ratchet_testing import weaker; weaker.deny(weaker.UNSHARE, weaker.MOUNT); "),
}


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


@contextmanager
def service(folder: Path, lanes: int, level: str = "L3") -> Iterator[Service]:
    """Raises LookupError where the level can't be had: L3 is for root, and nobody needs a python to run."""
    nobody, before = LEVELS[level]
    if not nobody and os.geteuid() != 0:
        raise LookupError("L3 takes root")
    settings = {
        "RATCHET_SANDBOX_PORT": str(port := free_port()),
        "RATCHET_SANDBOX_METRICS_PORT": "0",
        "RATCHET_SANDBOX_LANES": str(lanes),
        "RATCHET_SANDBOX_IDLE_EXTRA": "PT0.2S" if lanes == CORES else "PT1S",
        "RATCHET_SANDBOX_LOG_LEVEL": "WARNING",
        "TMPDIR": str(folder),
        "DATABASE_URL": "",
        "REDIS_URL": "",
    }
    folder.chmod(0o777)
    python = weaker.python_as_nobody("sandbox_service.main") if nobody else [sys.executable]
    command = [*python, "-c", f"{before}from sandbox_service.main import main; main()"]
    process = subprocess.Popen(command, env=os.environ | settings, cwd="/")
    try:
        yield Service(psutil.Process(process.pid), f"127.0.0.1:{port}", folder)
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def burners(count: int) -> Iterator[None]:
    """So many processes that only compute, beside it."""
    burning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in burning:
            one.kill()
            one.wait()


def hostile(level: int = 3, kinds: Iterable[str] = ("call", "check", "stdio")) -> list[pb.Program]:
    """The shipped attacks that a level claims to stop, in tests of these kinds, with a tenth of a second each."""
    found = []
    for attack in attack_suite.attacks():
        for processes in (False, True):
            refused = Verdict.NONE in attack.expected  # such test code, when it's read
            if attack.level <= level and attack.tried_with(processes) and not refused:
                test = _test(attack.test)
                name = f"attack:{attack.name}" + "/processes" * processes
                language = "" if attack.language == "python" else attack.language
                program = pb.Program(id=name, source=attack.source, tests=[test], language=language)
                program.processes = processes and not language
                program.entry_point = "" if test.HasField("stdio") else "f"
                program.limits.memory_bytes = 128 << 20
                program.limits.cpu_time.FromTimedelta(timedelta(seconds=0.1))
                if test.WhichOneof("kind") in set(kinds):
                    found.append(program)
    return found


def _test(test: object) -> problem_pb2.Test:
    if isinstance(test, StdioTest):
        stdio = problem_pb2.StdioTest(stdin=test.stdin, expected_stdout=test.expected_stdout)
        return problem_pb2.Test(stdio=stdio, held_out=test.held_out)
    if isinstance(test, CheckTest):
        kinds = problem_pb2.CheckTest
        grading = kinds.GRADING_SHARED if test.shared else kinds.GRADING_STRICT
        return problem_pb2.Test(check=kinds(code=test.code, names=test.names, grading=grading), held_out=test.held_out)
    assert isinstance(test, CallTest)
    call = problem_pb2.CallTest(args=repr(list(test.args)), expected=repr(test.expected))
    return problem_pb2.Test(call=call, held_out=test.held_out)


async def offered(target: str, programs: Iterable[pb.Program]) -> tuple[list[pb.Program], list[str]]:
    """Those that a service can run, and what it lacks for the others, in words."""
    async with channel(target) as door:
        await wait_healthy(target, timedelta(seconds=60))
        found = await program_pb2_grpc.ProgramServiceStub(door).GetCapabilities(pb.GetCapabilitiesRequest())
    languages = {runtime.language for runtime in found.runtimes}
    runtimes = {runtime.name for runtime in found.runtimes} | {""}
    chosen, lacking = [], set()
    for program in programs:
        language = program.language or "python"
        if language not in languages:
            lacking.add(f"no {language} here")
        elif program.runtime not in runtimes:
            lacking.add(f"no runtime {program.runtime} here")
        elif program.id in honest.NEEDS_L2 and found.level < pb.ISOLATION_LEVEL_L2:
            lacking.add("no semaphores and no shared memory at L1")
        elif program.processes and not found.processes:
            lacking.add("programs may not start processes here")
        else:
            chosen.append(program)
    return chosen, sorted(lacking)


async def run(target: str, programs: Iterable[pb.Program], size: int = BATCH) -> AsyncIterator[pb.ExecutionItem]:
    """Raises what the stream raises; an item for each program, as it comes."""
    programs = iter(programs)

    async def requests() -> AsyncIterator[pb.StreamExecuteRequest]:
        while batch := list(islice(programs, size)):
            yield pb.StreamExecuteRequest(programs=batch)
            await asyncio.sleep(0)

    async with channel(target) as door:
        await wait_healthy(target, timedelta(seconds=60))
        async for response in program_pb2_grpc.ProgramServiceStub(door).StreamExecute(requests(), timeout=3000):
            for item in response.items:
                yield item
