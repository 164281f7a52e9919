import asyncio
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet_kit.process import ProcessGroup

PIPE = asyncio.subprocess.PIPE
SOON = timedelta(seconds=5)

# Prints its own pid and that of a grandchild that moved to a session of its own and whose parent has ended.
DAEMON = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", '''
import subprocess, sys
print(subprocess.Popen(["sleep", "600"], start_new_session=True).pid, flush=True)
'''])
time.sleep(600)
"""
STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def exists(pid: int) -> bool:
    """Whether the process runs: one that has ended and waits for its parent, perhaps an idle init, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until_gone(pid: int) -> None:
    async with asyncio.timeout(5):
        while exists(pid):
            await asyncio.sleep(0.01)


async def first_line(group: ProcessGroup) -> str:
    assert group.stdout is not None
    return (await asyncio.wait_for(group.stdout.readline(), 5)).decode().strip()


async def test_gives_the_exit_code():
    group = await ProcessGroup.start(python("raise SystemExit(7)"))
    assert await group.wait() == 7
    assert group.returncode == 7


async def test_gives_the_signal_that_ended_it():
    group = await ProcessGroup.start(["sleep", "600"])
    os.kill(group.pid, signal.SIGKILL)
    assert await group.wait() == -signal.SIGKILL


async def test_the_pid_is_that_of_the_program_and_leads_its_session():
    group = await ProcessGroup.start(python("import os; print(os.getpid(), os.getsid(0), os.getpgid(0))"), stdout=PIPE)
    assert (await first_line(group)).split() == [str(group.pid)] * 3
    await group.wait()


async def test_a_missing_program_is_an_error():
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        await ProcessGroup.start(["no-such-program"])


async def test_environment_folder_and_output(tmp_path: Path):
    group = await ProcessGroup.start(
        python("import os; print(os.environ['A'], os.getcwd())"), env={"A": "b"}, cwd=tmp_path, stdout=PIPE
    )
    assert await first_line(group) == f"b {tmp_path}"
    await group.wait()


async def test_output_ends_with_the_program():
    group = await ProcessGroup.start(python("print('x')"), stdout=PIPE, stderr=PIPE)
    assert group.stdout is not None
    assert group.stderr is not None
    assert await group.stdout.read() == b"x\n"
    assert await group.stderr.read() == b""
    await group.wait()


async def test_stop_lets_it_end_by_itself():
    program = (
        "import signal, sys; signal.signal(15, lambda *_: sys.exit(3)); print('ready', flush=True); signal.pause()"
    )
    group = await ProcessGroup.start(python(program), stdout=PIPE)
    assert await first_line(group) == "ready"
    assert await group.stop(SOON) == 3


async def test_stop_kills_what_ignores_it():
    group = await ProcessGroup.start(python(STUBBORN), stdout=PIPE)
    await first_line(group)
    started = time.monotonic()
    assert await group.stop(timedelta(seconds=0.2)) == -signal.SIGKILL
    assert time.monotonic() - started < 2


async def test_stop_twice_and_after_the_end():
    group = await ProcessGroup.start(["true"])
    await group.wait()
    assert await group.stop() == 0
    assert await group.stop() == 0


async def test_a_cancelled_stop_kills_at_once():
    group = await ProcessGroup.start(python(STUBBORN), stdout=PIPE)
    await first_line(group)
    stopping = asyncio.create_task(group.stop(timedelta(minutes=1)))
    await asyncio.sleep(0.05)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert await asyncio.wait_for(group.wait(), 5) == -signal.SIGKILL


async def test_stop_ends_daemons_in_other_sessions():
    group = await ProcessGroup.start(python(DAEMON), stdout=PIPE)
    daemon = int(await first_line(group))
    await group.stop(SOON)
    assert not exists(daemon)


async def test_a_stop_without_grace_kills_daemons_at_once():
    stubborn = DAEMON.replace('["sleep", "600"]', '["sh", "-c", "trap : TERM; while :; do sleep 1; done"]')
    group = await ProcessGroup.start(python(stubborn), stdout=PIPE)
    daemon = int(await first_line(group))
    started = time.monotonic()
    await group.stop(timedelta(0))
    assert time.monotonic() - started < 1.5
    assert not exists(daemon)


async def test_daemons_end_when_the_program_is_killed():
    group = await ProcessGroup.start(python(DAEMON), stdout=PIPE)
    daemon = int(await first_line(group))
    os.kill(group.pid, signal.SIGKILL)
    assert await group.wait() == -signal.SIGKILL
    assert not exists(daemon)


async def test_leaving_the_block_stops_it():
    async with await ProcessGroup.start(["sleep", "600"]) as group:
        assert exists(group.pid)
    assert not exists(group.pid)


OWNER = """
import asyncio, sys
from ratchet_kit.process import ProcessGroup

async def main():
    group = await ProcessGroup.start([sys.executable, "-c", sys.argv[1]], stdout=asyncio.subprocess.PIPE)
    print(group.pid, (await group.stdout.readline()).decode().strip(), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_nothing_outlives_a_killed_owner():
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", OWNER, DAEMON, stdout=PIPE)
    assert owner.stdout is not None
    program, daemon = map(int, (await owner.stdout.readline()).split())
    owner.kill()
    await owner.wait()
    await until_gone(program)
    await until_gone(daemon)


async def test_a_killed_guard_takes_the_program_along():
    group = await ProcessGroup.start(["sleep", "600"])
    group._guard.kill()
    await group.wait()
    await until_gone(group.pid)
