"""Locks the keeper of a lane in: every layer that this kernel and this user allow, once, before any program."""

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from sandbox_service.cage.kernel import landlock, libc, seccomp
from sandbox_service.cage.lane import jail, root
from sandbox_service.cage.lane.cpu_time import Account
from sandbox_service.cage.lane.world import OwnWorld, World

# What a process was started with. TensorFlow reads it before its first operation, and aborts where it can't.
_OWN_WORDS = f"{root.PROC}/self/cmdline"


class Lacking(Exception):
    """A lane of this kind would be weaker than it says."""


class Locked(NamedTuple):
    """What `lock_in` came to. `refused`: the reason for having no namespaces, if there are none. `account`: of the CPU
    time of programs that start processes, where there's one. `data_bytes`: what the packages of a runtime take, which
    no program pays for out of its own limit."""

    layers: list[str]
    world: World
    refused: str
    processes: bool
    account: Account | None
    data_bytes: int


def lock_in(begin: dict[str, Any], proc: int, make_world: type[OwnWorld] | None = None) -> Locked:
    """Every layer that this kernel and this user allow. `begin`: see outside.py. `proc`: the machine's /proc.
    `make_world`: another kind of world, where there are namespaces."""
    setup, refused, layers = begin["setup"], begin["refused"], list(begin["layers"])
    processes, packages = setup["processes"], setup["packages"]
    if not os.access(os.__file__, os.R_OK):
        raise SystemExit(
            f"{os.__file__} can't be read by uid {os.geteuid()}: programs couldn't import the standard library"
            f"{refused and f' (no namespaces: {refused})'}"
        )
    enters = 1 << libc.CAP_SYS_CHROOT if setup.get("image") else 0
    jail.seal(0 if refused else 1 << libc.CAP_SYS_ADMIN | enters)
    if not refused:
        packages = packages and root.PACKAGES
    layers += ["no-new-privs", "rlimits", "clean-environment"]
    folder = f"{begin['stage']}/own" if refused else root.SCRATCH
    rules = None
    if rights := landlock.rights():
        more = [*setup["paths"], *([packages] if packages else [])]
        own = _OWN_WORDS if packages else ""
        rules = landlock.Rules(rights, [*root.readable_paths(tuple(more)), *root.DEVICES], folder, own)
        layers.append("landlock")
    if seccomp.supported():
        layers.append("seccomp")
    world = World(folder, rules) if refused else (make_world or OwnWorld)(rules, processes, proc)
    os.environ["HOME"] = os.environ["TMPDIR"] = world.folder
    with world.before_programs():
        data_bytes = _warm_up(packages, setup["warm"], proc)
    if processes:
        _demand_holds_processes(layers)
    account = _account(setup["cpu_usage"]) if processes else None
    return Locked(layers, world, refused, processes, account, data_bytes)


def _demand_holds_processes(layers: list[str]) -> None:
    """Raises Lacking where programs may start processes and these could not be held."""
    lacking = {"pid-ns", "net-ns", "private-root", "seccomp"} - set(layers)
    if lacking:
        raise Lacking(f"programs that start processes can't be held here without {', '.join(sorted(lacking))}")


def _account(cpu_usage: int) -> Account | None:
    """`cpu_usage`: a descriptor of the cgroup's, or -1."""
    try:
        return Account(cpu_usage)
    except OSError:
        return None


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """The first process that this one starts is the pid 1 of its namespace: the zygote, and none of what packages run,
    as matplotlib lists the fonts. Nor can it start a thread by now: older ones of matplotlib would warn by a timer."""
    import subprocess
    import threading

    def refuse(*_: object) -> None:
        raise OSError("no process may be started yet")

    start: Any = subprocess.Popen._execute_child  # type: ignore[attr-defined]
    subprocess.Popen._execute_child = refuse  # type: ignore[attr-defined]
    threading.Timer.start = lambda timer: None  # type: ignore[assignment]
    try:
        yield
    finally:
        del threading.Timer.start
        subprocess.Popen._execute_child = start  # type: ignore[attr-defined]


def _compare_once(math_verify: Any) -> None:
    """Its grammar and patterns are made when they are first used, which takes 0.2 s of CPU time."""
    import logging

    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns where it has no limits of its own
    for right, answer in (("$\\frac{1}{2}$", "\\boxed{0.5}"), ("$x^2+1$", "$1+x^2$"), ("$3$", "1 + 2 = 3")):
        found = [math_verify.parse(text, parsing_timeout=None) for text in (right, answer)]
        math_verify.verify(*found, timeout_seconds=None)


def _warm_up(packages: str, names: list[str], proc: int) -> int:
    """Loads what programs import most of a runtime's packages: inside the cage, by the paths that programs know.

    Returns the bytes of writable memory that this process has then: what RLIMIT_DATA counts.
    """
    if not packages:
        return 0
    sys.path.append(packages)
    os.environ["PYTHONPATH"] = packages  # for the Pythons that a program starts
    if os.path.isdir(nltk_data := f"{packages}/nltk_data"):
        os.environ["NLTK_DATA"] = nltk_data  # no package has them: scripts/setup.sh puts them there
    with _alone():
        for name in names:
            module = importlib.import_module(name)
            if name == "math_verify":
                _compare_once(module)
    statm = os.open("self/statm", os.O_RDONLY, dir_fd=proc)
    try:
        return int(os.read(statm, 256).split()[5]) * os.sysconf("SC_PAGESIZE")
    finally:
        os.close(statm)
