"""Python programs that may start processes: what works then, and what's stopped all the same."""

import asyncio
import textwrap
from datetime import timedelta

import psutil
import pytest

from ratchet_testing.processes import children
from sandbox_service.adapters.lanes.pool import LanePool
from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.program import CallTest, CheckTest, Limits, Program, Test
from sandbox_service.domain.sandbox import Sandbox

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]
LIMITS = Limits(cpu_time=timedelta(seconds=2), memory_bytes=256 << 20)
TESTS = (CallTest((1,), 2),)


@pytest.fixture(autouse=True)
def _can_hold_processes(executor: LanePool) -> None:
    if not executor.capabilities.processes:
        pytest.skip("programs can't start processes here: that takes namespaces")


async def run(sandbox: Sandbox, body: str, tests: tuple[Test, ...] = TESTS) -> Execution:
    source = "def f(x):\n" + textwrap.indent(textwrap.dedent(body), "    ") + "\n    return x + 1\n"
    return await sandbox.execute(Program("p", source, "f", tests, limits=LIMITS, processes=True))


WORKS = {
    "fork": "import os\nif os.fork() == 0: os._exit(7)\nassert os.waitstatus_to_exitcode(os.wait()[1]) == 7",
    "fork_that_both_return_from": "import os\nif os.fork(): os.wait()",
    "shell": "import os\nassert os.system('echo a | grep -q a') == 0",
    "subprocess": """
        import subprocess, sys
        done = subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True)
        assert done.stdout == "42\\n", done
        """,
    "python": """
        import subprocess
        with open("script.py", "w") as file: file.write("print(6 * 7)")
        assert subprocess.check_output(["python", "script.py"]) == b"42\\n"
        """,
    "script": """
        import os, subprocess
        with open("script", "w") as file: file.write("#!/bin/sh\\necho $((6 * 7))\\n")
        os.chmod("script", 0o700)
        assert subprocess.check_output(["./script"]) == b"42\\n"
        """,
    "pool": "import multiprocessing\nwith multiprocessing.Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]",
    "executor": """
        from concurrent.futures import ProcessPoolExecutor
        with ProcessPoolExecutor(2) as pool: assert list(pool.map(abs, [-1, -2])) == [1, 2]
        """,
    "manager": "import multiprocessing\nwith multiprocessing.Manager() as m: assert list(m.list([1])) == [1]",
    "shared": """
        import multiprocessing
        counter = multiprocessing.Value("i", 0)
        def work():
            with counter.get_lock(): counter.value += 1
        each = [multiprocessing.Process(target=work) for _ in range(3)]
        for process in each: process.start()
        for process in each: process.join()
        assert counter.value == 3
        """,
    "signals": """
        import os, signal
        child = os.fork()
        if child == 0: signal.pause()
        os.kill(child, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == -signal.SIGTERM
        """,
    "local_socket": """
        import socket
        server = socket.socket(socket.AF_UNIX)
        server.bind("here"); server.listen()
        client = socket.socket(socket.AF_UNIX)
        client.connect("here"); client.send(b"x")
        assert server.accept()[0].recv(1) == b"x"
        """,
    "memory_shared_by_fork": """
        import os, time
        block = bytearray(150 << 20)
        for _ in range(4):
            if os.fork() == 0:
                time.sleep(0.3)
                os._exit(0)
        for _ in range(4): os.wait()
        """,
}
STOPPED = {
    # 256 processes have nearly 1 MiB each, with their page tables: the memory may end before the processes do
    "fork_bomb": (
        "import os\nwhile True: os.fork()",
        {Verdict.RUNTIME_ERROR, Verdict.TIME_LIMIT, Verdict.MEMORY_LIMIT},
    ),
    "fork_bomb_that_goes_on": (
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        {Verdict.TIME_LIMIT, Verdict.MEMORY_LIMIT},
    ),
    "memory_in_children": (
        """
        import os, time
        for _ in range(8):
            if os.fork() == 0:
                block = bytearray(b"x") * (60 << 20)
                time.sleep(60)
        time.sleep(60)
        """,
        {Verdict.MEMORY_LIMIT},
    ),
    "memory_in_a_shell": ("import os\nos.system('x=aaaaaaaa; while :; do x=$x$x; done')", {Verdict.MEMORY_LIMIT}),
    "time_in_children": (
        """
        import os, signal
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        for _ in range(3):
            if os.fork() == 0:
                while True: pass
        signal.pause()
        """,
        {Verdict.TIME_LIMIT},
    ),
    "sleep_in_a_child": ("import os\nos.system('sleep 60')", {Verdict.TIME_LIMIT}),
    "the_internet": ("import socket\nsocket.socket()", {Verdict.RUNTIME_ERROR}),
    "namespaces": ("import ctypes\nassert ctypes.CDLL(None).unshare(0x10000000) == 0", {Verdict.RUNTIME_ERROR}),
    "unshare_program": (
        "import subprocess\nsubprocess.run(['/usr/bin/unshare', '-r', 'true'], check=True)",
        {Verdict.RUNTIME_ERROR},
    ),
    "other_files": ("open('/etc/passwd')", {Verdict.RUNTIME_ERROR}),
    "proc": ("import os\nos.listdir('/proc')", {Verdict.RUNTIME_ERROR}),
    "trace": ("import ctypes\nassert ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0", {Verdict.RUNTIME_ERROR}),
    "write_to_the_library": (
        "import os\nopen(os.path.join(os.path.dirname(os.__file__), 'x.py'), 'w')",
        {Verdict.RUNTIME_ERROR},
    ),
}


@pytest.mark.parametrize("name", WORKS)
async def test_what_works(sandbox: Sandbox, name: str) -> None:
    execution = await run(sandbox, WORKS[name])
    assert execution.verdict is Verdict.PASSED, execution


@pytest.mark.parametrize("name", STOPPED)
async def test_what_is_stopped(sandbox: Sandbox, executor: LanePool, name: str) -> None:
    body, verdicts = STOPPED[name]
    execution = await run(sandbox, body)
    assert execution.verdict in verdicts, execution
    await assert_nothing_is_left(sandbox)


@pytest.mark.parametrize(
    "body",
    [
        "import os, signal\nos.kill(1, signal.SIGKILL); os.kill(1, signal.SIGTERM); os.kill(1, signal.SIGSTOP)",
        "import os, signal\nif os.fork() == 0: os.kill(os.getppid(), 0); os.killpg(0, signal.SIGKILL)\nos.wait()",
        """
        import os, signal
        for _ in range(20):
            if os.fork() == 0:
                os.setsid()
                for number in range(1, 32):
                    if number not in (signal.SIGKILL, signal.SIGSTOP): signal.signal(number, signal.SIG_IGN)
                if os.fork() == 0:
                    while True: signal.pause()
                os._exit(0)
        """,
    ],
    ids=["kill_the_keeper", "kill_the_group", "daemons"],
)
async def test_the_lane_lives_on(sandbox: Sandbox, body: str) -> None:
    before = {child.pid for child in children()}
    await run(sandbox, body)
    await assert_nothing_is_left(sandbox)
    assert before <= {child.pid for child in children()}


async def test_no_pass_by_killing_the_tester(sandbox: Sandbox) -> None:
    body = "import os, signal\nos.kill(-1, signal.SIGKILL)"
    execution = await run(sandbox, body, (CheckTest("def check(f):\n    assert f(1) == 3\n"),))
    assert execution.verdict is Verdict.RUNTIME_ERROR, execution


async def test_check_tests(sandbox: Sandbox) -> None:
    execution = await run(sandbox, WORKS["shell"], (CheckTest("def check(f):\n    assert f(1) == 2\n"),))
    assert execution.verdict is Verdict.PASSED, execution


async def test_time_and_memory_of_all_processes_count(sandbox: Sandbox) -> None:
    body = """
        import os, time
        for _ in range(2):
            if os.fork() == 0:
                block = bytearray(b"x") * (50 << 20)
                started = time.process_time()
                while time.process_time() < started + 0.4: pass
                os._exit(0)
        for _ in range(2): os.wait()
        """
    execution = await run(sandbox, body)
    assert execution.verdict is Verdict.PASSED, execution
    assert timedelta(seconds=0.7) < execution.cpu_time < timedelta(seconds=1.5)
    assert execution.max_memory_bytes > 100 << 20


async def test_a_script_that_forks_and_goes_on(sandbox: Sandbox) -> None:
    source = "import os\nchild = os.fork()\nif child: os.waitpid(child, 0)\nprint('both')\n"
    execution = await sandbox.execute(Program("p", source, limits=LIMITS, processes=True))
    assert (execution.verdict, execution.stdout) == (Verdict.PASSED, "both\nboth\n")


async def test_without_leave_none_starts(sandbox: Sandbox) -> None:
    source = "import os\ndef f(x):\n    os.fork()\n    return x + 1\n"
    execution = await sandbox.execute(Program("p", source, "f", TESTS, limits=LIMITS))
    assert execution.verdict is Verdict.RUNTIME_ERROR


async def assert_nothing_is_left(sandbox: Sandbox) -> None:
    """The next program finds empty folders, and each lane has its own processes alone: a keeper and its zygote."""
    body = "import os\nassert os.listdir('/tmp') == os.listdir('/dev/shm') == []"
    execution = await run(sandbox, body)
    assert execution.verdict is Verdict.PASSED, execution
    await asyncio.sleep(0)
    for keeper in children():
        descendants = [child for child in keeper.children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE]
        assert len(descendants) <= 1, descendants
