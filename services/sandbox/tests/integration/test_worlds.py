"""What a program finds is new, whatever the one before it did; and a lane that is not as it was is thrown away."""

import os
import resource
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from datetime import timedelta

import psutil
import pytest
import pytest_asyncio

from ratchet_testing.processes import children
from sandbox_service.adapters.lanes.options import LaneOptions
from sandbox_service.adapters.lanes.pool import LanePool
from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.program import CallTest, CheckTest, Limits, Program, StdioTest
from sandbox_service.domain.sandbox import Sandbox

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]
LIMITS = Limits(cpu_time=timedelta(seconds=2), memory_bytes=256 << 20)
HONEST = Program("honest", "f = lambda x: x + 1", "f", (CallTest((1,), 2),), limits=LIMITS)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def executor() -> AsyncIterator[LanePool]:
    """One lane of a kind: what is left in it is found by the next."""
    async with LanePool(LaneOptions(lanes=1, idle_extra=timedelta(seconds=0.5))) as executor:
        if not executor.capabilities.processes:
            pytest.skip("worlds take namespaces")
        yield executor


@pytest.fixture
def sandbox(executor: LanePool) -> Sandbox:
    return Sandbox(executor, queue_limit=1000)


async def call(sandbox: Sandbox, body: str, processes: bool = False) -> Execution:
    """A program whose function does `body`, with `result` as what it returns."""
    source = "def f(x):\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n    return result\n"
    test = CallTest((1,), 2)
    return await sandbox.execute(Program("p", source, "f", (test,), limits=LIMITS, processes=processes))


LOOK = """
    import fcntl, os
    folder = os.stat(".")
    result = [os.getpid(), folder.st_mode, folder.st_mtime_ns > 0, folder.st_nlink, os.listxattr("."), os.listdir(".")]
    result += [os.listdir("/dev/shm"), os.statvfs(".").f_ffree, os.getcwd(), os.umask(0o22), os.getpriority(0, 0)]
    for number in range(4):
        result += [fcntl.fcntl(number, fcntl.F_GETFL), fcntl.fcntl(number, fcntl.F_GETFD), os.fstat(number).st_mode]
    result.append(os.read(0, 10))
    """
MARK = """
    import fcntl, os, struct
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, 0, 0xFFFFFFFF) for tag in (1, 4, 32))
    for number in range(4):
        flags = fcntl.fcntl(number, fcntl.F_GETFL)
        for more in (os.O_APPEND, os.O_NONBLOCK, 0o40000):
            try:
                fcntl.fcntl(number, fcntl.F_SETFL, flags | more)
            except OSError:
                pass
        try:
            os.fchmod(number, 0o7)
            os.utime(number, (1, 1))
        except OSError:
            pass
    for name, value in (("user.mark", b"x" * 9999), ("system.posix_acl_default", acl)):
        os.setxattr(".", name, value)
    os.mkdir("folder")
    open("file", "w").write("x")
    os.nice(5)
    os.write(0, b"left")
    os.utime(".", (1, 1))
    os.chmod(".", 0)
    result = 2
    """


@pytest.mark.parametrize("processes", [False, True], ids=["plain", "processes"])
async def test_what_a_program_finds_is_what_the_first_one_found(sandbox: Sandbox, processes: bool) -> None:
    first = await call(sandbox, LOOK, processes)
    assert (await call(sandbox, MARK, processes)).verdict is Verdict.PASSED
    then = await call(sandbox, LOOK, processes)
    assert first.results[0].got == then.results[0].got
    assert first.detail == then.detail == ""


async def test_numbers_of_processes_begin_anew(sandbox: Sandbox) -> None:
    body = (
        "import os\nnumbers = []\nfor _ in range(30):\n    numbers.append(os.fork() or os._exit(0))\nresult = numbers"
    )
    first, second = [await call(sandbox, body, processes=True) for _ in range(2)]
    assert first.results[0].got == second.results[0].got != ""


PATHS = ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("processes", [False, True], ids=["plain", "processes"])
async def test_standard_streams_have_names(sandbox: Sandbox, path: str, processes: bool) -> None:
    source = f"""
        text = open({path!r}).read()
        open("/dev/stdout", "w").write(text.upper())
        open("/dev/stderr", "a").write("told")
        """
    test = StdioTest("abc\n", "ABC\n")
    program = Program("p", textwrap.dedent(source), "", (test,), limits=LIMITS, processes=processes)
    execution = await sandbox.execute(program)
    assert (execution.verdict, execution.stderr) == (Verdict.PASSED, "told"), execution


REACHES = {
    "memory": "/proc/self/mem",
    "maps": "/proc/self/maps",
    "environment": "/proc/self/environ",
    "words": "/proc/self/cmdline",
    "its killer's choice": "/proc/self/oom_score_adj",
    "its session's share": "/proc/self/autogroup",
    "its timers": "/proc/self/timerslack_ns",
    "mounts": "/proc/self/mountinfo",
    "the zygote": "/proc/1/status",
    "the zygote's files": "/proc/1/fd/1",
    "the kernel": "/proc/sys/kernel/ns_last_pid",
    "keys": "/proc/keys",
}


@pytest.mark.parametrize("what", REACHES)
@pytest.mark.parametrize("processes", [False, True], ids=["plain", "processes"])
async def test_nothing_else_of_proc(sandbox: Sandbox, what: str, processes: bool) -> None:
    body = f"""
        import os
        result = 2
        for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
            try:
                os.open({REACHES[what]!r}, flags)
                result = 3
            except OSError:
                pass
        """
    assert (await call(sandbox, body, processes)).verdict is Verdict.PASSED


async def test_a_program_and_its_tests_cannot_look_into_one_another(sandbox: Sandbox) -> None:
    """Where they may have a name for the other's process: the same user, in the same namespace."""
    source = """
        import os
        def f(x):
            found = []
            for number in range(1, 64):
                for name in ("fd/0", "fd/1", "fd/3", "fd/4", "mem", "cwd", "exe", "status"):
                    path = f"/proc/{number}/{name}"
                    if number != os.getpid() and os.path.lexists(path):
                        found.append(path)
            return found
        """
    test = CheckTest("def check(f):\n    assert f(1) == []\n")
    program = Program("p", textwrap.dedent(source), "f", (test,), limits=LIMITS, processes=True)
    execution = await sandbox.execute(program)
    assert execution.verdict is Verdict.PASSED, (execution.detail, execution.stderr, execution)


async def test_locks_of_a_programs_own_processes_hold(sandbox: Sandbox) -> None:
    body = """
        import fcntl, os
        with open("count", "w") as file: file.write("0")
        for _ in range(4):
            if os.fork() == 0:
                for _ in range(25):
                    with open("count", "r+") as file:
                        fcntl.flock(file, fcntl.LOCK_EX)
                        number = int(file.read())
                        file.seek(0)
                        file.write(str(number + 1))
                        file.flush()
                os._exit(0)
        for _ in range(4): os.wait()
        result = 2 if open("count").read() == "100" else 3
        """
    assert (await call(sandbox, body, processes=True)).verdict is Verdict.PASSED


ORDINARY = {
    "user": "import getpass, os, pwd\nresult = 2 if getpass.getuser() == pwd.getpwuid(os.getuid()).pw_name else 3",
    "thread pool": "from multiprocessing.pool import ThreadPool\nresult = sum(ThreadPool(2).map(abs, [-1, -1]))",
    "semaphore": "import multiprocessing as m\nlock = m.Lock()\nresult = lock.acquire() + (not lock.acquire(False))",
    "shared memory": """
        from multiprocessing import shared_memory
        block = shared_memory.SharedMemory("block", create=True, size=4096)
        block.buf[0] = 2
        other = shared_memory.SharedMemory("block")
        result = other.buf[0]
        """,
    "nice": "import os\nresult = 2 + os.nice(0) - os.getpriority(os.PRIO_PROCESS, 0)",
    "locale": "import locale\nlocale.setlocale(locale.LC_ALL, '')\nresult = 2",
    "text wrapper": "import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, line_buffering=True)\nresult = 2",
    "reconfigured": "import sys\nsys.stdout.reconfigure(line_buffering=True)\nresult = 2",
    "database": """
        import sqlite3
        for mode in ("delete", "wal"):
            base = sqlite3.connect(mode)
            base.execute(f"pragma journal_mode={mode}")
            base.execute("create table t (x)")
            base.execute("insert into t values (2)")
            base.commit()
            (result,) = base.execute("select x from t").fetchone()
        """,
    "copies": """
        import os, shutil
        open("a", "w").write("2")
        shutil.copy("a", "b")
        shutil.copy2("a", "c")
        os.chmod("a", 0o600)
        result = int(open("c").read())
        """,
}


@pytest.mark.parametrize("name", ORDINARY)
@pytest.mark.parametrize("processes", [False, True], ids=["plain", "processes"])
async def test_an_ordinary_machine(sandbox: Sandbox, name: str, processes: bool) -> None:
    if name == "shared memory" and not processes:
        pytest.skip("Python starts a process to keep track of it")
    execution = await call(sandbox, ORDINARY[name], processes)
    assert execution.verdict is Verdict.PASSED, (execution.detail, execution.stderr, execution)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gets into a lane from outside")
@pytest.mark.parametrize("damage", ["a process", "a mount", "a priority", "a limit"])
async def test_a_lane_that_is_not_as_it_was_is_thrown_away(executor: LanePool, sandbox: Sandbox, damage: str) -> None:
    """What no program is known to do is done from outside. Each program gets the verdict that is its own."""
    assert (await sandbox.execute(HONEST)).verdict is Verdict.PASSED
    (keeper,) = (child for child in children() if child.children() and not _starts_processes(child))
    (zygote,) = keeper.children()
    _damage(zygote, damage)
    # found by the proof after the next program, which is then run in another lane
    assert (await sandbox.execute(HONEST)).verdict is Verdict.PASSED
    assert not zygote.is_running() or zygote.status() == psutil.STATUS_ZOMBIE
    assert (await sandbox.execute(HONEST)).verdict is Verdict.PASSED
    assert await executor.leftovers() == []


def _starts_processes(keeper: psutil.Process) -> bool:
    return any("/usr/bin" in line for line in open(f"/proc/{keeper.children()[0].pid}/mounts") if " /usr/bin " in line)


def _damage(zygote: psutil.Process, kind: str) -> None:
    if kind == "a priority":
        zygote.nice(3)
        return
    if kind == "a limit":
        resource.prlimit(zygote.pid, resource.RLIMIT_NOFILE, (64, 64))
        return
    # a process of its own: one that was forked from here may have threads of gRPC's, and then enters no namespace
    subprocess.run([sys.executable, "-c", INSIDE, str(zygote.pid), kind], check=True)


INSIDE = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
for descriptor in [os.open(f"/proc/{sys.argv[1]}/ns/{name}", os.O_RDONLY) for name in ("mnt", "pid")]:
    assert libc.setns(descriptor, 0) == 0, os.strerror(ctypes.get_errno())
if sys.argv[2] == "a mount":
    assert libc.mount(b"tmpfs", b"/mnt", b"tmpfs", 0, None) == 0, os.strerror(ctypes.get_errno())
elif os.fork() == 0:
    os.setsid()
    os.closerange(0, 3)
    time.sleep(30)
os._exit(0)
"""
