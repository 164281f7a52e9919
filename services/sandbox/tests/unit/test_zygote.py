"""The process that forks, and what it says of its children, in a Python of its own: it's no place for threads."""

import subprocess
import sys

import pytest


def run(script: str) -> list[str]:
    start = """
import os, signal, sys, time
from sandbox_service.cage.lane import forks
from sandbox_service.cage.kernel.libc import high
from sandbox_service.cage.lane.proof import LeftBehind
from sandbox_service.cage.lane.world import World
from sandbox_service.cage.lane.zygote import Zygote
world, prepare = World("/", None), lambda: None
reader, writer = map(high, os.pipe())
last_words = high(os.dup(2))
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", start + script], capture_output=True, text=True, timeout=30, check=True
    )
    return done.stdout.split()


def test_a_child_its_number_and_its_end() -> None:
    told, number, status, after = run("""
def begin(places):
    os.write(writer, str(os.getpid()).encode())
    return 3
zygote = Zygote(forks.start(prepare, begin, world, last_words, writer))
child = zygote.fork()
number = child.number()
told = os.read(reader, 16).decode()
assert child.ends_within(20)
child.close()
after = zygote.fork()
after.close()
print(told, number, child.status, after.number())
zygote.end()
""")
    assert told == number
    assert status == "3"
    assert after != number


def test_the_last_of_two_is_awaited_first_and_the_other_killed() -> None:
    first, last, number, again = run("""
def begin(places):
    if not places:
        return 5
    while os.read(0, 1) == b"s":
        time.sleep(60)
    return 4
zygote = Zygote(forks.start(prepare, begin, world, last_words, writer))
sleep, sleeper = os.pipe()
os.write(sleeper, b"s")
first = zygote.fork([sleep], awaited=False)
number = first.number()
last = zygote.fork()
assert last.ends_within(20)
last.close()
first.close()
third = zygote.fork()
third.close()
print(first.status, last.status, number, third.number())
zygote.end()
""")
    assert (first, last) == ("-9", "5")
    assert number != again


def test_what_is_prepared_is_done_before_anything_else() -> None:
    told, after = run("""
zygote = Zygote(forks.start(lambda: os.write(writer, b"prepared"), lambda _: 0, world, last_words, writer)) and None
told = os.read(reader, 16).decode()
try:
    Zygote(forks.start(lambda: 1 / 0, lambda _: 0, world, high(os.open(os.devnull, os.O_WRONLY)), writer))
except EOFError:
    print(told, "ended")
""")
    assert (told, after) == ("prepared", "ended")


def test_a_child_finds_what_it_was_given_and_the_next_does_not() -> None:
    first, second, open_after = run("""
def begin(places):
    found = [number for number in range(6) if os.path.exists(f"/proc/self/fd/{number}")]
    os.write(writer, f"{places}:{found}".replace(" ", "").encode())
    return 0
zygote = Zygote(forks.start(prepare, begin, world, last_words, writer))
given = os.open(os.devnull, os.O_RDONLY)
for descriptors in ([given] * 5, [given]):
    child = zygote.fork(descriptors)
    assert child.ends_within(20)
    child.close()
    zygote.wait_for_all()
    print(os.read(reader, 64).decode())
print([number for number in range(6) if os.path.exists(f"/proc/{zygote.pid}/fd/{number}")] or "none")
zygote.end()
""")
    assert (first, second, open_after) == ("5:[0,1,2,3,4]", "1:[0]", "none")


def test_a_lane_that_is_not_as_it_was_ends_it() -> None:
    """Before it says that the last program has ended."""
    opened, after, words = run("""
class Marked(World):
    def number_anew(self):
        os.write(writer, b"begun")
    def clear(self):
        raise LeftBehind("a mark")
words, complaints = os.pipe()
zygote = Zygote(forks.start(prepare, lambda _: 0, Marked("/", None), high(complaints), writer))
child = zygote.fork()
try:
    child.close()
    zygote.wait_for_all()
except EOFError:
    print(os.read(reader, 64).decode(), "ended", os.read(words, 99).decode().replace(" ", "-"))
""")
    assert (opened, after, words) == ("begun", "ended", "left-behind:-a-mark")


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ("os.chdir('/')", "folder"),
        ("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])", "signals"),
        ("signal.setitimer(signal.ITIMER_REAL, 1000)", "timer"),
        ("high(os.dup(writer))", "descriptors"),
        ("os.set_blocking(writer, False)", "flags-of-descriptors"),
    ],
)
def test_what_the_zygote_sees_of_itself(damage: str, found: str) -> None:
    (words,) = run(f"""
class Damaged(World):
    def number_anew(self):
        self.times = getattr(self, "times", 0) + 1
        if self.times == 3:
            {damage}
words, complaints = os.pipe()
os.chdir("/proc")
zygote = Zygote(forks.start(prepare, lambda _: 0, Damaged("/", None), high(complaints), writer))
try:
    while True:
        zygote.fork().close()
        zygote.wait_for_all()
except EOFError:
    print(os.read(words, 99).decode().replace(" ", "-"))
""")
    assert words.startswith(f"left-behind:-{found}")


@pytest.mark.parametrize("damage", ["priority", "limit"])
def test_what_is_seen_of_the_zygote_from_outside(damage: str) -> None:
    (seen,) = run(f"""
import resource
from sandbox_service.cage.lane.proof import Outside
zygote = Zygote(forks.start(prepare, lambda _: 0, world, last_words, writer))
outside = Outside(zygote.pid, os.open("/proc", os.O_RDONLY))
outside.demand_unchanged()
if {damage!r} == "limit":
    resource.prlimit(zygote.pid, resource.RLIMIT_CORE, (0, 0))
    resource.prlimit(zygote.pid, resource.RLIMIT_NOFILE, (64, 64))
else:
    os.setpriority(os.PRIO_PROCESS, zygote.pid, 19)
try:
    outside.demand_unchanged()
except LeftBehind:
    print("seen")
zygote.end()
""")
    assert seen == "seen"
