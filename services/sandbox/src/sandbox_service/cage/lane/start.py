"""The start of one lane, inside its root where it has one: it locks itself in, and serves. By enter.py."""

import gc
import os
import pwd
import resource
import signal
import site
import sys
from _socket import socket
from collections.abc import Callable
from typing import Any

from sandbox_service.cage.kernel import libc
from sandbox_service.cage.lane import forks, jail, lockdown, root
from sandbox_service.cage.lane.cradle import Cradle
from sandbox_service.cage.lane.forks import complain
from sandbox_service.cage.lane.lockdown import Lacking
from sandbox_service.cage.run import runner
from sandbox_service.cage.wire import wire

# What programs import most, loaded once: each takes 0.2 to 3 ms when cold. What few import would cost all the others:
# the kernel takes 0.1 microseconds for each page that a fork inherits, so dataclasses alone (which bring inspect) 30.
_WARM = "bisect collections datetime functools heapq itertools json math operator re string typing"
# `random` would seed itself anew after each fork; here every program finds it as seed(0) leaves it.
_register, os.register_at_fork = os.register_at_fork, lambda **_: None
for _name in ("random", *_WARM.split()):
    __import__(_name)
os.register_at_fork = _register


_THREAD_STACK = 8 << 20
_PACKAGE = "sandbox_service"
_held: list[object] = []


def _leave_the_cage() -> None:
    """In the zygote. The cage's modules are out of reach from now on: no import of a program may find one.

    They are held all the same: what they would leave free lies among what forks share, so that each program would fill
    it first, and copy 30 pages more.
    """
    names = [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]
    paths = [path for path in sys.path_importer_cache if f"{path}/".startswith(f"{root.FOLDER}/")]
    _held.extend([sys.modules.pop(name) for name in names])
    _held.extend([sys.path_importer_cache.pop(path) for path in paths])
    sys.argv[:] = ["program.py"]


def _name_the_files_alone() -> None:
    """Functions and classes of ours that programs can reach, as setrecursionlimit, name the file alone as module."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != _PACKAGE:
            continue
        module.__name__ = name.rpartition(".")[2]
        for item in list(vars(module).values()):
            for part in (item, *(vars(item).values() if isinstance(item, type) else ())):
                if getattr(part, "__module__", None) == name:
                    part.__module__ = module.__name__


def note() -> dict[str, Any]:
    """What this process wrote down before it began again: see outside.py."""
    descriptor, parent = int(sys.argv[1]), int(sys.argv[2])
    libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL)
    if not jail.parent_is(parent):
        raise SystemExit("the service is gone")
    begin: dict[str, Any] = wire.receive(descriptor)
    os.close(descriptor)
    return begin


def main(begin: dict[str, Any]) -> None:
    _name_the_files_alone()
    complaints = libc.duplicate(2, 100)  # descriptor 2 will be the programs' own
    try:
        _serve(begin, complaints)
    except BaseException as error:
        complain(complaints, error)
        raise


def _serve(begin: dict[str, Any], complaints: int) -> None:
    connection, proc, setup = libc.high(begin["connection"]), libc.high(begin["proc"]), begin["setup"]
    if setup["cpu_usage"] >= 0:
        setup["cpu_usage"] = libc.high(setup["cpu_usage"])
    _occupy()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    del os.environ["LD_BIND_NOW"]  # it has done its part, before this line
    libc.set_thread_stack(_THREAD_STACK)
    service = socket(fileno=connection)
    try:
        locked = lockdown.lock_in(begin, proc)
    except Lacking as error:
        wire.send(service, {"lacking": str(error)})
        return
    except BaseException as error:
        complain(complaints, error)
        raise
    # as site.py has them, and programs count on it: exit, quit, copyright, credits, license, help
    for add in (site.setquit, site.setcopyright, site.sethelper):
        add()
    _name_the_user()
    if locked.refused:
        _let_attributes_be(os.path.realpath(locked.world.folder))
    if not setup["cgroup"] and not locked.processes:
        _share_with_nobody()
    sys.modules["random"].seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    runner.make_streams()
    runner.count_from_the_program()
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    cradle = Cradle(service, locked, setup["cgroup"])
    cradle.rehearse()
    gc.collect()
    gc.freeze()

    def prepare() -> None:
        cradle.settle()
        _leave_the_cage()

    ends = forks.start(prepare, cradle.begin, locked.world, complaints, connection)
    # what the zygote does not need is loaded where nobody inherits it
    from sandbox_service.cage.lane.keeper import Keeper
    from sandbox_service.cage.lane.zygote import Zygote

    zygote = Zygote(ends)
    try:
        keeper = Keeper(service, locked, setup, zygote, proc, base)
        hello = {"layers": locked.layers, "refused": locked.refused, "python": sys.version.split()[0]}
        wire.send(service, hello)
        keeper.serve()
    except Lacking as error:
        wire.send(service, {"lacking": str(error)})
    finally:
        # so that no zombie of this lane is left to whatever is pid 1 of the machine or the container
        zygote.end()


def _share_with_nobody() -> None:
    """Where shared memory can't be counted (process_tree.py), what a single process maps is its own anyway."""
    import mmap

    def make(cls: type, fileno: int, length: int, flags: int = mmap.MAP_SHARED, *more: Any, **named: Any) -> Any:
        if fileno == -1 and flags & mmap.MAP_SHARED and "access" not in named:
            flags = flags & ~mmap.MAP_SHARED | mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        return original(cls, fileno, length, flags, *more, **named)

    original = mmap.mmap.__new__
    own = type("mmap", (mmap.mmap,), {"__new__": make, "__module__": "mmap"})
    vars(mmap).update(mmap=own)


def _name_the_user() -> None:
    """There's no /etc/passwd to read, and programs ask for their user's name: getpass, pathlib, tempfile."""
    uid, gid = os.geteuid(), os.getegid()
    user = pwd.struct_passwd(("sandbox", "x", uid, gid, "sandbox", os.environ["HOME"], "/bin/sh"))

    def find(place: int, name: str) -> Callable[[object], pwd.struct_passwd]:
        def get(key: object, /) -> pwd.struct_passwd:
            if user[place] == key:
                return user
            raise KeyError(f"{name}(): {key!r} not found")

        return get

    pwd.getpwuid, pwd.getpwnam, pwd.getpwall = find(2, "getpwuid"), find(0, "getpwnam"), lambda: [user]


def _let_attributes_be(folder: str) -> None:
    """Where seccomp lets nobody change rights and times, as it can't tell whose file it is: to ask for that within the
    program's own folder, as shutil.copy does, is no error, and has no effect."""

    def wrap(change: Callable[..., None]) -> Callable[..., None]:
        def changed(path: Any, *arguments: Any, **keywords: Any) -> None:
            try:
                change(path, *arguments, **keywords)
            except PermissionError:
                inside = not isinstance(path, int) and f"{os.path.realpath(os.fsdecode(path))}/".startswith(
                    f"{folder}/"
                )
                if not inside or not os.path.lexists(path):
                    raise

        return changed

    os.chmod, os.utime = wrap(os.chmod), wrap(os.utime)


def _occupy() -> None:
    """Places that programs get their own pipes at, with a pipe: streams over them are made before (make_streams), and
    what is received later lies above."""
    reader, writer = os.pipe()
    for place in (1, 2, wire.RESULT_FD, wire.CHANNEL_FD):
        if place not in (reader, writer):
            os.dup2(writer, place, inheritable=False)
    for descriptor in (reader, writer):
        if descriptor > wire.CHANNEL_FD:
            os.close(descriptor)
