"""Real cgroups: what the kernel does in them, and that none is left."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest
import pytest_asyncio

from sandbox_service.adapters.lanes import cgroups
from sandbox_service.adapters.lanes.options import LaneOptions
from sandbox_service.adapters.lanes.pool import LanePool
from sandbox_service.domain.execution import Verdict
from sandbox_service.domain.program import CallTest, Limits, Program
from sandbox_service.domain.sandbox import Sandbox

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def home() -> cgroups.Home:
    try:
        return cgroups.find()
    except cgroups.NoCgroup as error:
        pytest.skip(f"no cgroups for this process: {error}")


@pytest.fixture
def group(home: cgroups.Home) -> Iterator[cgroups.LaneCgroup]:
    group = home.make()
    yield group
    assert group.remove()
    assert home.own() == []


def _run(group: cgroups.LaneCgroup, source: str) -> int:
    """Python's exit status, once it has been let go inside."""
    with subprocess.Popen([sys.executable, "-c", f"input()\n{source}"], stdin=subprocess.PIPE) as process:
        group.enter(process.pid)
        process.communicate(b"\n", timeout=60)
        return process.returncode


async def test_the_kernel_kills_above_the_limit_and_counts_it(group: cgroups.LaneCgroup) -> None:
    group.settle(0)
    group.limit_memory(32 << 20)
    assert group.kills() == cgroups.Kills()
    assert _run(group, "bytearray(8 << 20)") == 0
    assert group.kills().count == 0
    assert _run(group, "bytearray(512 << 20)") == -signal.SIGKILL
    assert group.kills().count == 1
    assert group.kills().at_limit > 0


async def test_process_ids_are_counted(group: cgroups.LaneCgroup) -> None:
    source = """
import os, sys
made = []
try:
    while len(made) < 1000:
        pid = os.fork()
        if pid == 0:
            os.read(0, 1)
            os._exit(0)
        made.append(pid)
except BlockingIOError:
    pass
for pid in made:
    os.kill(pid, 9)
sys.exit(len(made) == 255)
"""
    assert _run(group, source) == 1


async def test_a_folder_that_takes_none_is_no_cgroup(tmp_path) -> None:
    home = cgroups.Home(tmp_path / "gone", tmp_path / "gone", unified=True)
    with pytest.raises(cgroups.NoCgroup, match="No such file"):
        home.make()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lane(home: cgroups.Home) -> AsyncIterator[LanePool]:
    async with LanePool(LaneOptions(lanes=1, idle_extra=timedelta(seconds=0.5))) as executor:
        assert len(home.own()) == 1
        yield executor
    assert home.own() == []


def _starve(home: cgroups.Home) -> None:
    """Takes the lane's cgroup all that it has to spare: a program's own limits would otherwise be met first."""
    (name,) = home.own()
    usage, limit = (
        ("memory.current", "memory.max") if home.unified else ("memory.usage_in_bytes", "memory.limit_in_bytes")
    )
    used = int((home.memory / name / usage).read_text())
    (home.memory / name / limit).write_text(str(used + (16 << 20)))


async def test_a_program_killed_for_memory_gets_that_verdict(lane: LanePool, home: cgroups.Home) -> None:
    sandbox = Sandbox(lane, queue_limit=10)
    limits = Limits(cpu_time=timedelta(seconds=5), memory_bytes=256 << 20)
    good = Program("good", "f = lambda x: x + 1", "f", (CallTest((1,), 2),), limits=limits)
    greedy = Program("greedy", "def f(x):\n    return len(b'x' * (200 << 20)) and 2", "f", good.tests, limits=limits)
    assert (await sandbox.execute(greedy)).verdict is Verdict.PASSED
    _starve(home)
    execution = await sandbox.execute(greedy)
    assert execution.verdict is Verdict.MEMORY_LIMIT
    assert "took more memory than its limit" in execution.detail
    assert (await sandbox.execute(good)).verdict is Verdict.PASSED


_IN_A_SMALL_CONTAINER = """
import asyncio, os, sys
from datetime import timedelta
open(sys.argv[1] + "/cgroup.procs", "w").write(str(os.getpid()))
from ratchet_kit.errors import Unavailable
from sandbox_service.adapters.lanes.options import LaneOptions
from sandbox_service.adapters.lanes.pool import LanePool
from sandbox_service.domain.program import CallTest, Limits, Program
from sandbox_service.domain.sandbox import Sandbox

async def main():
    limits = Limits(cpu_time=timedelta(seconds=5), memory_bytes=1 << 30)
    source = "def f(x):\\n    return len(b'x' * (x << 20)) and 2"
    async with LanePool(LaneOptions(lanes=1)) as pool:
        for size in (1, 600):
            try:
                test = CallTest((size,), 2)
                print((await Sandbox(pool, 10).execute(Program("p", source, "f", (test,), limits=limits))).verdict)
            except Unavailable as error:
                print(error)

asyncio.run(main())
"""


_A_WORKSPACE_IN_A_SMALL_CONTAINER = """
import asyncio, os, sys
from datetime import timedelta
open(sys.argv[1] + "/cgroup.procs", "w").write(str(os.getpid()))
from ratchet_kit.errors import NotFound
from ratchet_kit.times import SystemClock
from sandbox_service.adapters.lanes.options import LaneOptions
from sandbox_service.adapters.workspaces.cages import WorkspaceCages
from sandbox_service.domain.workspace import Command, Exit, WorkspaceLimits, WorkspaceSpec
from sandbox_service.domain.workspaces import Workspaces

async def nothing():
    for one in ():
        yield one

async def main():
    spec = WorkspaceSpec(limits=WorkspaceLimits(memory_bytes=1 << 30), keep_processes=True)
    async with WorkspaceCages(LaneOptions(lanes=1)) as cages:
        workspaces = Workspaces(cages, SystemClock(), 4 << 30)
        id = (await workspaces.create(spec, timedelta(minutes=1))).id
        for size in (1, 600):
            taking = f"import subprocess, sys; subprocess.run([sys.executable, '-c', 'chr(9) * ({size} << 20)'])"
            try:
                async for event in workspaces.exec(id, Command(("python", "-c", taking)), nothing()):
                    if isinstance(event, Exit):
                        print(event.end, event.status)
            except NotFound as error:
                print(error)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("service", "expected"), [(_IN_A_SMALL_CONTAINER, "passed"), (_A_WORKSPACE_IN_A_SMALL_CONTAINER, "exited 0")]
)
async def test_a_program_killed_for_the_memory_of_the_machine_gets_no_verdict(
    home: cgroups.Home, service: str, expected: str
) -> None:
    """Here for that of the container that the service is in."""
    if home.unified:
        pytest.skip("this process may be moved within version 1 alone")
    container = home.memory / f"container-of-test-{os.getpid()}"
    container.mkdir()
    try:
        (container / "memory.limit_in_bytes").write_text(str(400 << 20))
        command = [sys.executable, "-c", service, str(container)]
        done = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        said, _ = await done.communicate()
    finally:
        await asyncio.sleep(0.1)
        container.rmdir()
    small, large = [line for line in said.decode().splitlines() if not line.startswith("20")]
    assert small == expected
    assert "short of memory" in large


async def test_a_lane_that_is_lost_takes_its_cgroup_along(lane: LanePool, home: cgroups.Home) -> None:
    before = home.own()
    running = asyncio.create_task(
        Sandbox(lane, 10).execute(Program("p", "import time\ntime.sleep(0.3)\nf = lambda x: 2", "f"))
    )
    await asyncio.sleep(0.1)
    for pid in (home.memory / before[0] / "cgroup.procs").read_text().split():
        with contextlib.suppress(ProcessLookupError):  # they die with one another
            os.kill(int(pid), signal.SIGKILL)
    await running
    assert len(home.own()) == 1
    assert home.own() != before


async def test_what_a_killed_service_left_goes_at_the_next_start(home: cgroups.Home) -> None:
    source = (
        "from sandbox_service.adapters.lanes import cgroups\nimport os\ncgroups.find().make()\nos.kill(os.getpid(), 9)"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", source)
    await process.wait()
    left = f"{cgroups.PREFIX}{process.pid}-0"
    assert (home.memory / left).is_dir()
    async with LanePool(LaneOptions(lanes=1)):
        assert not (home.memory / left).exists()
        assert not (home.pids / left).exists()


async def test_lanes_have_the_same_share_of_a_core_however_many_processes_they_run(home: cgroups.Home) -> None:
    if not any((folder / "cpu.shares").exists() for folder in home.folders) and not home.unified:
        pytest.skip("the controller cpu isn't here")
    crowd = (
        "import os\nfor _ in range(150):\n    if os.fork() == 0: break\nif os.fork(): os.setsid()\nwhile True: pass\n"
    )
    greedy = Program("greedy", crowd, limits=Limits(cpu_time=timedelta(seconds=20)), processes=True)
    source = "def f(x):\n    for _ in range(2_000_000): pass\n    return x + 1\n"
    honest = Program("honest", source, "f", (CallTest((1,), 2),), limits=Limits(cpu_time=timedelta(seconds=1)))
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        async with LanePool(LaneOptions(lanes=2)) as executor:
            sandbox = Sandbox(executor, 10)
            await sandbox.execute(Program("first", "", processes=True))  # such a lane is up
            busy = asyncio.create_task(sandbox.execute(greedy))
            await asyncio.sleep(1.5)
            execution = await sandbox.execute(honest)
            busy.cancel()
            await asyncio.gather(busy, return_exceptions=True)
    finally:
        os.sched_setaffinity(0, cores)
    assert execution.verdict is Verdict.PASSED, execution
    assert execution.wall_time < 60 * execution.cpu_time
