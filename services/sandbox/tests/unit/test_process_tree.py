"""What the keeper finds out about a program by looking, in a Python of its own as test_zygote does."""

import subprocess
import sys

START = """
import mmap, os, signal, sys, threading, time
from sandbox_service.cage.lane.limits import Budget, Limits
from sandbox_service.cage.lane.cpu_time import Account
from sandbox_service.cage.kernel.libc import high
from sandbox_service.cage.lane.process_tree import ProcessTree
from sandbox_service.cage.lane.world import World
from sandbox_service.cage.lane import forks
from sandbox_service.cage.lane.zygote import Zygote

proc = os.open("/proc", os.O_RDONLY)
def burn(seconds):
    started = time.process_time()
    while time.process_time() < started + seconds:
        pass
def zygote_of(begin, keep=-1):
    last_words = high(os.dup(2))
    return Zygote(forks.start(lambda: None, begin, World("/", None), last_words, last_words if keep < 0 else keep))
def looks_at(child, tree, times=40):
    busy = 0
    for _ in range(times):
        time.sleep(0.01)
        tree.look([child], 1 << 40, 0)
        busy += tree.busy
    return busy / times
"""


def run(script: str) -> list[str]:
    done = subprocess.run([sys.executable, "-I", "-c", START + script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_who_wants_the_processor() -> None:
    (told,) = run("""
def begin(places):
    kind = os.read(orders, 1)
    if kind == b"t":
        threading.Thread(target=burn, args=(60,), daemon=True).start()
    if kind == b"b":
        burn(60)
    if kind == b"f" and os.fork() == 0:
        burn(60)
    time.sleep(60)
    return 0
orders, writer = map(high, os.pipe())
zygote = zygote_of(begin, orders)
told = []
for kind, many in ((b"s", False), (b"b", False), (b"t", False), (b"s", True), (b"f", True)):
    os.write(writer, kind)
    tree = ProcessTree(proc, many, cgroup=False)
    assert tree.find(zygote.pid)
    child = zygote.fork()
    told.append(round(looks_at(child, tree)))
    for found in list(tree._members([])):
        os.kill(int(found), signal.SIGKILL)
    child.close()
print("".join(map(str, told)))
zygote.end()
""")
    assert told == "01101"


def test_memory_of_all_and_files_once() -> None:
    alone, both, counted, mapped = map(
        int,
        run("""
def begin(places):
    block = bytearray(b"x") * (60 << 20)
    shared = mmap.mmap(-1, 30 << 20)
    shared[:] = b"x" * len(shared)
    if os.fork():
        os.write(writer, b".")
    time.sleep(60)
    return 0
reader, writer = map(high, os.pipe())
zygote = zygote_of(begin, writer)
child = zygote.fork()
os.read(reader, 1)
told = []
for many, limit, files in ((False, 1 << 40, 0), (True, 1 << 40, 0), (True, 0, 0), (True, 0, 30 << 20)):
    tree = ProcessTree(proc, many, cgroup=True)
    tree._sockets = lambda: 0  # a lane has a network of its own, this test the machine's
    tree.find(zygote.pid)
    tree.look([child], limit, files)
    told.append(tree.memory >> 20)
for found in list(tree._members([])):
    os.kill(int(found), signal.SIGKILL)
child.close()
zygote.end()
print(*told)
"""),
    )
    assert 90 <= alone < 130
    assert both > 1.5 * alone  # what both have counts for each: a look that's cheap
    assert 90 <= counted < 130  # and once, where it matters
    assert counted - 1 <= mapped <= counted + 3  # files that are mapped count as files


def test_time_of_children_that_nobody_waits_for() -> None:
    account, tree = map(
        float,
        run("""
def begin(places):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for _ in range(20):
        reader, writer = os.pipe()
        if os.fork() == 0:
            burn(0.01)
            os._exit(0)
        os.close(writer)
        os.read(reader, 1)
        os.close(reader)
    return 0
try:
    account = Account(-1)
except OSError:
    print(0.2, 0)  # the kernel gives none to this user
    sys.exit()
zygote = zygote_of(begin)
before = account.seconds(zygote.pid)
child = zygote.fork()
assert child.ends_within(50)
print(account.seconds(zygote.pid) - before, child.cpu)
zygote.end()
"""),
    )
    assert 0.2 <= account < 0.4
    assert tree < 0.15


def test_a_job_ends_at_its_first_limit_and_says_which() -> None:
    told = run("""
def begin(places):
    if os.read(orders, 1) == b"b":
        burn(60)
    block = bytearray(80 << 20)
    time.sleep(60)
    return 0
orders, writer = map(high, os.pipe())
zygote = zygote_of(begin, orders)
def ends(kind, limits):
    os.write(writer, kind)
    tree, children = ProcessTree(proc, False, cgroup=False), []
    budget = Budget(children, limits, tree, None, zygote.pid, lambda: 0)
    children.append(zygote.fork())
    while not (end := budget.spent()):
        time.sleep(budget.patience())
    children[0].close()
    return end
much = 1 << 40
print(ends(b"b", Limits(0.2, 9, 9, much)), ends(b"s", Limits(9, 0.2, 9, much)))
print(ends(b"b", Limits(9, 9, 0.2, much)), ends(b"s", Limits(9, 9, 9, 50 << 20)))
zygote.end()
""")
    assert told == ["cpu", "idle", "wall", "memory"]
