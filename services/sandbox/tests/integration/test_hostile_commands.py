"""Hostile programs in C, in the lane whose programs may start processes: each is answered by the verdict that it names.

Each is asked to print 2. A new attack is a new file.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from ratchet_testing.processes import children
from sandbox_service.adapters.lanes.options import LaneOptions
from sandbox_service.adapters.lanes.pool import LanePool
from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.program import Limits, Program, StdioTest
from sandbox_service.domain.sandbox import Sandbox

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

HOSTILE = {path.stem: path.read_text() for path in sorted((Path(__file__).parent.parent / "hostile_c").glob("*.c"))}
LIMITS = Limits(cpu_time=timedelta(seconds=1), memory_bytes=256 << 20, output_bytes=64 << 10)
OPTIONS = LaneOptions(lanes=1, idle_extra=timedelta(seconds=0.5))
LANES = 2  # the plain one that's always there, and the one for processes
PROCESSES_PER_LANE = 2


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox() -> AsyncIterator[Sandbox]:
    os.environ["RATCHET_SECRET"] = "2"
    async with LanePool(OPTIONS) as executor:
        capabilities = await executor.describe()
        if not capabilities.processes:
            pytest.skip("programs can't start processes here: that takes namespaces")
        if "c" in capabilities.missing_languages:
            pytest.skip(f"there is no C here: {capabilities.missing_languages['c']}")
        yield Sandbox(executor, queue_limit=100)
    del os.environ["RATCHET_SECRET"]


async def _grade(sandbox: Sandbox, source: str) -> Execution:
    program = Program("hostile", source, tests=(StdioTest("", "2"),), limits=LIMITS, language="c")
    return await sandbox.execute(program)


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_program(sandbox: Sandbox, name: str) -> None:
    expect = re.search(r"Expect: ([A-Z_, ]+?) \*/", HOSTILE[name])
    assert expect is not None
    execution = await _grade(sandbox, HOSTILE[name])
    assert execution.verdict in {Verdict[word] for word in expect.group(1).split(", ")}, execution
    await _assert_nothing_is_left(sandbox)


async def _assert_nothing_is_left(sandbox: Sandbox) -> None:
    """The next program finds an empty folder and empty shared memory; the machine has the lanes' processes alone."""
    source = """
        #include <dirent.h>
        #include <stdio.h>
        static int entries(const char *name) {
            DIR *folder = opendir(name);
            int count = -2;
            while (readdir(folder)) count++;
            return count;
        }
        int main(void) { printf("%d\\n", entries("/tmp") + entries("/dev/shm")); }
        """
    execution = await _grade(sandbox, source)
    assert execution.verdict is Verdict.PASSED, execution  # the program itself, seen twice
    await asyncio.sleep(0)
    assert len(children(recursive=True)) == LANES * PROCESSES_PER_LANE
