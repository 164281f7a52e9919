"""What workspaces must stand: files, processes, limits, neighbours, ends."""

import asyncio
import os
import signal
import socket
import tarfile
import time
from datetime import timedelta

from ratchet_kit.errors import InvalidArgument, NotFound, ResourceExhausted
from ratchet_testing.processes import children
from sandbox_service.domain.levels import Level
from sandbox_service.domain.workspace import Command, ExecEnd, Exit, WorkspaceLimits, WorkspaceSpec

from .workspace_lab import LEASE, LIMITS, MIB, MOST, Lab, case, chunks, entry, programs


@case(Level.L2)
async def folders_of_tasks_lead_to_its_own(lab: Lab) -> None:
    """A task that names /app finds what is in the workspace's folder of that name."""
    id = await lab.new()
    await lab.write(id, entry("app/x"))
    assert await lab.must(id, "import os; print(open('/app/x').read(), os.path.exists('/tests'))") == "x False\n"
    await lab.must(id, "import os; os.makedirs('/tmp/logs/verifier'); open('/logs/verifier/reward.txt', 'w').close()")


@case()
async def files_last_and_processes_do_not(lab: Lab) -> None:
    id = await lab.new()
    wrote = "import sys, os; open('a', 'w').write(sys.stdin.read() + os.environ['X'] + sys.argv[1])"
    assert (await lab.python(id, wrote, "c", stdin=b"a" * 200_000, environment={"X": "b"})).passed
    done = await lab.python(id, "import os; print(os.stat('a').st_size); import sys; sys.exit(7)")
    assert (done.out, done.exit.status, done.exit.end) == ("200002\n", 7, ExecEnd.EXITED)
    assert done.exit.usage.disk_bytes >= 200_002
    other = await lab.new()
    assert (await lab.must(other, "import os; print(os.listdir())")) == "[]\n"


@case()
async def what_cannot_start_says_why(lab: Lab) -> None:
    id = await lab.new()
    async for event in lab.workspaces.exec(id, Command(("no-such-program",)), chunks(), "me"):
        assert isinstance(event, Exit)
        assert event.status == 127
        assert "No such file" in event.reason
    done = await lab.python(id, "", folder="no/such")
    assert "No such file" in done.exit.reason, done


@case()
async def files_go_in_and_out(lab: Lab) -> None:
    id = await lab.new()
    await lab.write(id, entry("d/x", 300_000), entry("l", kind=tarfile.SYMTYPE, link="d/x"), folder="in")
    assert (await lab.must(id, "import os; print(os.stat('in/l').st_size)")) == "300000\n"
    found = await lab.read(id, "in")
    assert {name: (one.size, one.linkname) for name, one in found.items()} == {
        "in": (0, ""), "in/d": (0, ""), "in/d/x": (300_000, ""), "in/l": (0, "d/x"),
    }  # fmt: skip
    await lab.refuses(lab.read(id, "nothing"), InvalidArgument)
    await lab.refuses(lab.workspaces.write(id, "", chunks(b"no tar"), "me"), InvalidArgument)


@case()
async def a_copy_has_the_files_alone(lab: Lab) -> None:
    id = await lab.new(keep=lab.level > Level.L1)
    await lab.must(id, "import os; os.mkdir('d'); open('d/a', 'w').write('one'); os.symlink('/etc', 'd/l')")
    spec = WorkspaceSpec("python", LIMITS)
    copy = (await lab.workspaces.create(spec, LEASE, "me", copy_of=id)).id
    assert (await lab.workspaces.get(copy, "me")).usage.disk_bytes
    seen = "import os; print(sorted(os.listdir('.')), open('d/a').read(), os.readlink('d/l'))"
    assert (await lab.must(copy, seen)) == "['d'] one /etc\n"
    await lab.must(copy, "open('d/a', 'w').write('two')")
    assert (await lab.must(id, "print(open('d/a').read())")) == "one\n"
    await lab.refuses(lab.workspaces.create(spec, LEASE, "you", copy_of=id), NotFound)
    small = WorkspaceSpec("python", WorkspaceLimits(timedelta(seconds=9), 256 * MIB, 32, MIB))
    await lab.must(id, "open('b', 'wb').write(bytes(4 << 20))")
    await lab.refuses(lab.workspaces.create(small, LEASE, "me", copy_of=id), ResourceExhausted)


@case()
async def links_lead_nowhere_at_write(lab: Lab) -> None:
    id, canary = await lab.new(), f"/tmp/canary-{os.getpid()}"
    await lab.must(id, f"import os; os.symlink('/tmp', 'out'); os.symlink('{canary}', 'file'); os.mkdir('in')")
    hostile = [
        [entry(f"out/canary-{os.getpid()}")], [entry(f"../../..{canary}")], [entry("a/../../b")],
        [entry("s", kind=tarfile.SYMTYPE, link="/tmp"), entry(f"s/canary-{os.getpid()}")],
        [entry("h", kind=tarfile.LNKTYPE, link="in")], [entry("d", kind=tarfile.CHRTYPE)],
    ]  # fmt: skip
    for entries in hostile:
        await lab.refuses(lab.write(id, *entries), InvalidArgument)
    await lab.write(id, entry("file", 3))  # in the link's place
    assert (await lab.must(id, "import os; print(os.path.islink('file'), os.stat('file').st_size)")) == "False 3\n"
    await lab.refuses(lab.write(id, entry("x"), folder="out"), InvalidArgument)
    assert not os.path.lexists(canary)  # noqa: ASYNC240


@case()
async def links_lead_nowhere_at_read(lab: Lab) -> None:
    id = await lab.new()
    await lab.must(id, "import os; os.symlink('/', 'root'); os.symlink('/etc/hostname', 'name'); os.mkfifo('pipe')")
    found = await lab.read(id, "name", "root", "pipe")
    assert {one.type for one in found.values()} == {tarfile.SYMTYPE}
    await lab.refuses(lab.read(id, "root/usr"), InvalidArgument)
    await lab.refuses(lab.read(id, "../x"), InvalidArgument)
    await lab.must(id, "f = open('sparse', 'wb'); f.truncate(16 << 20); open('two', 'wb').truncate(16 << 20)")
    await lab.refuses(lab.read(id, "."), InvalidArgument)  # more than the disk may hold


@case(Level.L2)
async def what_can_not_be_read_is_left_out(lab: Lab) -> None:
    """Beside what can: at L1 rights of files stay as they are."""
    id = await lab.new()
    await lab.must(
        id,
        "import os; os.mkdir('d'); os.mkdir('d/shut'); open('d/shut/x', 'w').close(); open('d/a', 'w').write('1')\n"
        "open('d/own', 'w').close(); os.chmod('d/own', 0); os.chmod('d/shut', 0)",
    )
    assert set(await lab.read(id, "d")) == {"d", "d/a", "d/shut"}
    await lab.refuses(lab.read(id, "d/own"), InvalidArgument)


@case(Level.L2)
async def files_can_be_read_beside_a_program_that_makes_and_removes_some(lab: Lab) -> None:
    id = await lab.new(keep=True)
    busy = (
        "open('d/a', 'w').write('good')\n    while True:\n        with open('d/log', 'wb') as log:\n"
        "            log.write(bytes(4 << 20))\n        for i in range(300): open(f'd/{i}', 'w').close()\n"
        "        for i in range(300): os.remove(f'd/{i}')"
    )
    await lab.must(id, "import os; os.mkdir('d')\n" + _DAEMON.format(busy))
    await asyncio.sleep(0.5)
    for _ in range(20):
        found = await lab.read(id, "d")
        assert found["d/a"].size == 4


@case()
async def a_full_disk_is_nobody_elses(lab: Lab) -> None:
    id, other = await lab.new(), await lab.new()
    fill = "import os, itertools\nfor i in itertools.count():\n    open(f'f{i}', 'wb').write(bytes(1 << 20))"
    done = await lab.python(id, fill)
    assert not done.passed, done
    if lab.level is Level.L1:
        assert done.exit.end is ExecEnd.DISK
    above = 256 if lab.level is Level.L1 else 8  # looks hold it there, and a disk is fast between two of them
    assert done.exit.usage.disk_bytes <= LIMITS.disk_bytes + above * MIB
    await lab.refuses(lab.write(id, entry("more", 17 * MIB)), ResourceExhausted)
    await lab.must(other, "open('a', 'wb').write(bytes(8 << 20))")
    await lab.must(id, "import os\nfor name in os.listdir(): os.remove(name)")
    await lab.must(id, "open('a', 'wb').write(bytes(1 << 20))")


@case()
async def many_files_are_bounded(lab: Lab) -> None:
    id = await lab.new()
    done = await lab.python(id, "import itertools\nfor i in itertools.count(): open(f'f{i}', 'w').close()")
    assert not done.passed
    assert (await lab.python(id, "import os; print(len(os.listdir()))")).out.strip() < "9999"


@case(Level.L2)
async def daemons_die_with_their_exec(lab: Lab) -> None:
    id = await lab.new()
    source = (
        "import os, time, ctypes\nfor i in range(5):\n    if os.fork() == 0:\n        os.setsid()\n"
        "        if os.fork(): os._exit(0)\n        ctypes.CDLL(None).prctl(1, 0)\n        time.sleep(100)\n"
        "time.sleep(0.2)\nprint('left')"
    )
    assert (await lab.must(id, source)) == "left\n"
    assert not programs()
    assert (await lab.must(id, "print(1)")) == "1\n"


_DAEMON = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    {}\n"


@case(Level.L2)
async def daemons_that_may_stay_die_with_the_workspace(lab: Lab) -> None:
    id = await lab.new(keep=True)
    done = await lab.python(id, _DAEMON.format("time.sleep(100)"))
    assert done.exit.usage.processes == 1, done
    assert len(programs()) == 1
    done = await lab.python(id, "import os; print(1)")
    assert (done.out, done.exit.usage.processes) == ("1\n", 1)
    await lab.workspaces.delete(id, "me")
    assert not await lab.settle()


@case(Level.L2)
async def a_daemon_pays_for_its_memory(lab: Lab) -> None:
    id = await lab.new(keep=True)
    await lab.must(id, _DAEMON.format("x = bytes(1); time.sleep(0.5); x = bytearray(300 << 20); time.sleep(100)"))
    until = time.monotonic() + 20
    while programs() and time.monotonic() < until:
        await asyncio.sleep(0.1)
    assert not programs()


@case(Level.L3)
async def a_daemon_pays_for_its_time(lab: Lab) -> None:
    id = await lab.new(keep=True, limits=WorkspaceLimits(timedelta(seconds=2), 256 * MIB, 32, 16 * MIB))
    await lab.must(id, _DAEMON.format("time.sleep(1); exec('while True: pass')"))
    until = time.monotonic() + 30
    while programs() and time.monotonic() < until:
        await asyncio.sleep(0.1)
    assert not programs()
    assert (await lab.python(id, "print(1)")).exit.end is ExecEnd.CPU


@case(Level.L2)
async def a_fork_bomb_stays_within(lab: Lab) -> None:
    id, other = await lab.new(), await lab.new()
    bomb = "import os, time\nend = time.time() + 1\nwhile time.time() < end:\n    try: os.fork()\n    except OSError: 1"
    running = asyncio.create_task(lab.python(id, bomb))
    most = 0
    while not running.done():
        most = max(most, len(programs()))
        await asyncio.sleep(0.05)
    await running
    assert most <= LIMITS.processes + 2, most
    assert (await lab.must(other, "import os; os.fork(); print(1)")).startswith("1\n")
    assert not programs()
    assert (await lab.must(id, "print(2)")) == "2\n"


@case()
async def memory_is_bounded(lab: Lab) -> None:
    id, other = await lab.new(), await lab.new()
    done = await lab.python(id, "x = bytearray(700 << 20); print(len(x))")
    assert done.exit.end is ExecEnd.MEMORY or (done.exit.status == 1 and "MemoryError" in done.err), done
    assert (await lab.must(other, "print(1)")) == "1\n"


@case()
async def time_is_bounded(lab: Lab) -> None:
    id = await lab.new()
    done = await lab.python(id, "while True: pass", cpu_time=timedelta(seconds=0.5))
    assert done.exit.end is ExecEnd.CPU
    done = await lab.python(id, "import time; time.sleep(50)", wall_time=timedelta(seconds=0.5))
    assert done.exit.end is ExecEnd.WALL
    done = await lab.python(id, "import sys; sys.stdout.write('x' * 300_000)", output_bytes=1000)
    assert (len(done.out), done.exit.output_cut, done.exit.status) == (1000, True, 0)
    short = await lab.new(limits=WorkspaceLimits(timedelta(seconds=1), 256 * MIB, 32, 16 * MIB))
    assert (await lab.python(short, "open('a', 'w').close()\nwhile True: pass")).exit.end is ExecEnd.CPU
    assert (await lab.python(short, "print(1)")).exit.end is ExecEnd.CPU
    assert "a" in await lab.read(short, "a"), "its files are there"


@case()
async def a_neighbour_is_out_of_reach(lab: Lab) -> None:
    id, other = await lab.new(), await lab.new()
    where = await lab.must(other, "import os; open('secret', 'w').write('s3cret'); print(os.getcwd())")
    assert not programs()
    running = asyncio.create_task(lab.python(other, "import time; time.sleep(3)"))
    while not programs():
        await asyncio.sleep(0.05)
    pids = " ".join(str(one.pid) for one in children(recursive=True))
    attempt = (
        "import os, sys, glob\n"
        "reached = []\n"
        "def attempt(name, do):\n"
        "    try: reached.append((name, do()))\n"
        "    except (OSError, ValueError): pass\n"
        "if os.getcwd() != sys.argv[1]:\n"
        "    attempt('file', lambda: open(sys.argv[1] + '/secret').read())\n"
        "    attempt('folder', lambda: os.listdir(sys.argv[1]))\n"
        "    attempt('folders', lambda: os.listdir(os.path.dirname(os.path.dirname(sys.argv[1]))))\n"
        "for pid in map(int, sys.argv[2].split()):\n"
        "    for name in ('environ', 'mem', 'root', 'cwd', 'fd'):\n"
        "        attempt(name, lambda: os.open(f'/proc/{pid}/{name}', os.O_RDONLY))\n"
        "    if pid > 64: attempt('kill', lambda: os.kill(pid, 9))\n"
        "print([one for one in reached])"
    )
    assert (await lab.must(id, attempt, where.strip(), pids)) == "[]\n"
    assert (await running).passed
    assert (await lab.must(other, "print(open('secret').read())")) == "s3cret\n"


@case()
async def there_is_no_network(lab: Lab) -> None:
    """Where there are namespaces, loopback within the workspace alone."""
    id = await lab.new()
    loopback = "socket.AF_INET, " if lab.level is Level.L1 else ""
    source = (
        "import socket\n"
        f"for family in ({loopback}socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET, socket.AF_VSOCK):\n"
        "    try: socket.socket(family); print(family)\n"
        "    except OSError: pass\n"
        "for kind, protocol in ((2, 0), (3, 6), (3, 1), (1, 132), (1, 262)):\n"
        "    try: socket.socket(socket.AF_INET, kind, protocol); print(kind, protocol)\n"
        "    except OSError: pass\n"
    )
    assert not await lab.must(id, source)
    with socket.create_server(("127.0.0.1", 0)) as outside:
        places = [("127.0.0.1", outside.getsockname()[1]), ("127.0.0.1", 80), ("1.1.1.1", 53), ("169.254.169.254", 80)]
        dial = (
            f"import socket\nfor place in {places}:\n    try: socket.create_connection(place, 2); print(place)\n"
            "    except OSError: pass"
        )
        assert not await lab.must(id, dial)


@case()
async def a_result_cannot_be_forged(lab: Lab) -> None:
    id = await lab.new()
    source = (
        "import os, signal, struct, json\n"
        "said = json.dumps({'end': 'exited', 'status': 0, 'cpu': 0, 'wall': 0, 'said': '', 'usage': {}}).encode()\n"
        "for data in (said, struct.pack('!I', len(said)) + said, struct.pack('=idq', 0, 0, 0)):\n"
        "    for number in range(3, 1024):\n"
        "        try: os.write(number, data)\n"
        "        except OSError: pass\n"
        "for pid in (1, os.getppid()):\n"
        "    for number in (9, 19, 17, 10):\n"
        "        try: os.kill(pid, number)\n"
        "        except OSError: pass\n"
        "os._exit(42)"
    )
    for _ in range(2):
        done = await lab.python(id, source)
        assert (done.exit.status, done.exit.end, done.exit.reason, done.out) == (42, ExecEnd.EXITED, "", ""), done


@case(Level.L2)
async def a_killer_of_all_forges_nothing(lab: Lab) -> None:
    id, stop = await lab.new(keep=True), "while True:\n    try: os.kill(-1, 19)\n    except OSError: pass"
    await lab.must(id, _DAEMON.format(f"time.sleep(1); exec({stop!r})"))
    await asyncio.sleep(1.5)
    try:
        done = await lab.python(id, "print('mine')", wall_time=timedelta(seconds=2))
        assert done.exit.end in (ExecEnd.WALL, ExecEnd.EXITED), done
        await asyncio.wait_for(lab.read(id, "."), 3)
    except (TimeoutError, ResourceExhausted, InvalidArgument):
        pass  # what it holds up is its own
    assert (await lab.must(await lab.new(), "print(1)")) == "1\n"


@case()
async def a_cancelled_exec_ends_and_the_workspace_stays(lab: Lab) -> None:
    id = await lab.new()
    running = asyncio.create_task(lab.python(id, "open('a', 'w').close()\nwhile True: pass"))
    while not programs():
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.3)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert not programs()
    assert (await lab.must(id, "import os; print(os.listdir())")) == "['a']\n"


@case()
async def nothing_survives_delete_or_the_lease(lab: Lab) -> None:
    for lease in (LEASE, timedelta(seconds=1)):
        id = await lab.new(lease)
        running = asyncio.create_task(lab.python(id, "while True: pass"))
        while not programs():
            await asyncio.sleep(0.05)
        if lease is LEASE:
            await lab.workspaces.delete(id, "me")
        else:
            await asyncio.sleep(1)
            await lab.workspaces.sweep()
        await lab.refuses(running, NotFound)
        assert not await lab.settle()
        await lab.refuses(lab.python(id, "print(1)"), NotFound)
        await lab.refuses(lab.workspaces.renew(id, LEASE, "me"), NotFound)


@case()
async def a_lost_keeper_takes_all_along(lab: Lab) -> None:
    id = await lab.new(limits=WorkspaceLimits(timedelta(seconds=60), MOST // 2, 32, MOST // 2))
    await lab.must(id, "print(1)")
    (nursery,) = children()
    for victim in nursery.children():
        victim.send_signal(signal.SIGKILL)
    lost = await lab.refuses(lab.python(id, "print(1)"), NotFound)
    assert "was lost" in lost.message
    assert not await lab.settle()
    await lab.new(limits=WorkspaceLimits(timedelta(seconds=60), MOST // 2, 32, MOST // 2))  # its room is free again


@case()
async def a_lost_nursery_takes_all_along_and_another_comes(lab: Lab) -> None:
    id = await lab.new()
    running = asyncio.create_task(lab.python(id, "while True: pass"))
    while not programs():
        await asyncio.sleep(0.05)
    for nursery in children():
        nursery.kill()
    await lab.refuses(running, NotFound)
    assert not await lab.settle()
    assert (await lab.must(await lab.new(), "print(1)")) == "1\n"


@case()
async def one_is_made_the_moment_after_its_nursery_was_killed(lab: Lab) -> None:
    """Nobody has seen yet that it ended."""
    await lab.new()
    before = lab.nursery()
    for nursery in children():
        nursery.kill()
    assert (await lab.must(await lab.new(), "print(1)")) == "1\n"
    assert lab.nursery() is not before
    assert before._socket.fileno() == -1, "nothing of it is left open"


@case()
async def the_node_has_a_bound(lab: Lab) -> None:
    half = WorkspaceLimits(timedelta(seconds=60), MOST // 4, 32, MOST // 4)
    first = await lab.new(limits=half)
    await lab.new(limits=half)
    refused = await lab.refuses(lab.new(), ResourceExhausted)
    assert isinstance(refused, ResourceExhausted)
    assert refused.retry_after
    await lab.workspaces.delete(first, "me")
    await lab.new()


@case()
async def others_see_nothing(lab: Lab) -> None:
    id = await lab.new()
    asked = [
        lab.workspaces.get(id, "you"), lab.workspaces.renew(id, LEASE, "you"), lab.workspaces.delete(id, "you"),
        anext(lab.workspaces.exec(id, Command(("true",)), chunks(), "you")),
        lab.workspaces.write(id, "", chunks(), "you"), anext(lab.workspaces.read(id, ["."], "you")),
    ]  # fmt: skip
    for one in asked:
        await lab.refuses(one, NotFound)
    assert not (await lab.workspaces.page(0, "", "you")).items
