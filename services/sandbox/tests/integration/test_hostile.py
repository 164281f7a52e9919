"""Every program of tests/hostile in the real cage: the verdict that its docstring expects, and nothing left behind.

Each is asked for f(1) == 2 and doesn't compute it. A new attack is a new file.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from sandbox_service.adapters.zygotes import ZygoteExecutor, ZygoteOptions
from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.program import CallTest, Limits, Program
from sandbox_service.domain.sandbox import Sandbox

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

HOSTILE = sorted((Path(__file__).parent.parent / "hostile").glob("*.py"))
# Sources that no file of Python can hold.
UNREADABLE = {
    "nul_in_source": "x = 1\x00\n",
    "deep_nesting": "x = " + "(" * 20_000 + ")" * 20_000 + "\n",
    "deep_unary": "x = " + "-" * 90_000 + "1\n",
    "long_sum": "x = " + "1+" * 90_000 + "1\n",
    "not_python": "this is no Python",
}
PWNED = Path("/tmp/pwned")  # what pickle_bomb would make
LIMITS = Limits(cpu_time=timedelta(seconds=1), memory_bytes=256 << 20, output_bytes=64 << 10)
OPTIONS = ZygoteOptions(lanes=1, idle_extra=timedelta(seconds=0.5))
PROCESSES_PER_LANE = 2  # pid 1 of the namespace, and the one outside that waits for it


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    os.environ["SANDBOX_SECRET"] = "2"
    tempfile.tempdir = str(tmp_path_factory.mktemp("lanes"))
    before = _traces()
    async with ZygoteExecutor(OPTIONS) as executor:
        yield Sandbox(executor, queue_limit=100)
    await asyncio.sleep(0.05)
    assert _traces() == before
    tempfile.tempdir = None
    del os.environ["SANDBOX_SECRET"]


def _traces() -> tuple[int, int, list[str]]:
    """What a program could leave: processes, descriptors of the service, temporary folders."""
    children = [child for child in psutil.Process().children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE]
    folders = os.listdir(tempfile.gettempdir())
    return len(children), len(os.listdir("/proc/self/fd")), folders


def _read(path: Path) -> tuple[str, set[Verdict]]:
    source = path.read_text()
    line = next(line for line in source.splitlines() if line.startswith("Expect:"))
    return source, {Verdict[name.strip()] for name in line.removeprefix("Expect:").split(",")}


async def _grade(sandbox: Sandbox, source: str) -> Execution:
    return await sandbox.execute(Program("hostile", source, "f", (CallTest((1,), 2),), limits=LIMITS))


@pytest.mark.parametrize("path", HOSTILE, ids=lambda path: path.stem)
async def test_hostile_program(sandbox: Sandbox, path: Path) -> None:
    source, expected = _read(path)
    execution = await _grade(sandbox, source)
    assert execution.verdict in expected, execution
    assert execution.tests_passed == 0
    assert len(execution.stdout) + len(execution.stderr) <= LIMITS.output_bytes
    await _assert_nothing_is_left(sandbox)


@pytest.mark.parametrize("name", UNREADABLE)
async def test_unreadable_source(sandbox: Sandbox, name: str) -> None:
    execution = await _grade(sandbox, UNREADABLE[name])
    assert execution.verdict is Verdict.COMPILE_ERROR, execution
    await _assert_nothing_is_left(sandbox)


async def _assert_nothing_is_left(sandbox: Sandbox) -> None:
    """The next program finds an empty folder and works; the machine has the lane's processes, and no other."""
    source = "import os\ndef f(x):\n    assert os.listdir('/tmp') == [], os.listdir('/tmp')\n    return x + 1\n"
    execution = await _grade(sandbox, source)
    assert execution.verdict is Verdict.PASSED, execution
    processes, _, folders = _traces()
    assert processes == PROCESSES_PER_LANE
    assert folders == []
    assert not PWNED.exists()  # noqa: ASYNC240 (a stat)
