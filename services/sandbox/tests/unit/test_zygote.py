"""The process that forks, and what it says of its children, in a Python of its own: it's no place for threads."""

import subprocess
import sys
from pathlib import Path

import sandbox_service.cage

CAGE = Path(next(iter(sandbox_service.cage.__path__)))


def run(script: str) -> list[str]:
    start = f"import os, signal, sys, time\nsys.path.insert(0, {str(CAGE)!r})\nfrom zygote import Zygote\n"
    start += "from world import LeftBehind, World\nworld = World('/', None)\nprepare = lambda: None\n"
    done = subprocess.run(
        [sys.executable, "-I", "-c", start + script], capture_output=True, text=True, timeout=30, check=True
    )
    return done.stdout.split()


def test_a_child_its_number_and_its_end() -> None:
    told, number, status, after = run("""
reader, writer = os.pipe()
def begin(descriptors):
    os.write(writer, str(os.getpid()).encode())
    return 3
zygote = Zygote(prepare, begin, world, 2)
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
reader, writer = os.pipe()
def begin(descriptors):
    if not descriptors:
        return 5
    while os.read(descriptors[0], 1) == b"s":
        time.sleep(60)
    return 4
zygote = Zygote(prepare, begin, world, 2)
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
reader, writer = os.pipe()
zygote = Zygote(lambda: os.write(writer, b"prepared"), lambda _: 0, world, 2) and None
told = os.read(reader, 16).decode()
try:
    Zygote(lambda: 1 / 0, lambda _: 0, world, os.open(os.devnull, os.O_WRONLY))
except EOFError:
    print(told, "ended")
""")
    assert (told, after) == ("prepared", "ended")


def test_a_world_that_is_not_as_it_was_ends_it() -> None:
    """Before it says that the last program has ended."""
    opened, after, words = run("""
reader, writer = os.pipe()
class Marked(World):
    def open(self):
        os.write(writer, b"opened")
    def close(self):
        raise LeftBehind("a mark")
words, complaints = os.pipe()
zygote = Zygote(prepare, lambda _: 0, Marked("/", None), complaints)
zygote.open_world()
zygote.fork().close()
try:
    zygote.close_world()
except EOFError:
    print(os.read(reader, 64).decode(), "ended", os.read(words, 99).decode().replace(" ", "-"))
""")
    assert (opened, after, words) == ("opened", "ended", "left-behind:-a-mark")
