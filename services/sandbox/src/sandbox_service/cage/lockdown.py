"""Locks the keeper of a lane in: every layer that this kernel and this user allow, once, before any program."""

import importlib
import os
import sys
from typing import Any, NamedTuple

import jail
import scratch
from cpu_time import Account
from kernel import seccomp
from pipe import high
from process_tree import ProcessTree


class Lacking(Exception):
    """A lane of this kind would be weaker than it says."""


class Locked(NamedTuple):
    """What `lock_in` came to. `refused`: the reason for having no namespaces, if there are none. `tree`: by which the
    keeper looks at programs. `account`: of the CPU time of programs that start processes, where there's one.
    `data_bytes`: what the packages of a runtime take, which no program pays for out of its own limit."""

    layers: list[str]
    scratch: str
    refused: str
    tree: ProcessTree
    processes: bool
    account: Account | None
    data_bytes: int


def lock_in(stage: str, uid: int, setup: dict[str, Any]) -> Locked:
    """Every layer that this kernel and this user allow. See jail.py. `setup`: see protocol.py."""
    layers: list[str] = []
    folder = stage
    processes, more, packages = setup["processes"], tuple(setup["paths"]), setup["packages"]
    proc = high(os.open("/proc", os.O_RDONLY | os.O_DIRECTORY))
    statm = high(os.open("/proc/self/statm", os.O_RDONLY))
    refused = jail.refusal_to_unshare(stage, more, packages)
    if not refused:
        layers += jail.unshare()
        owner = uid if os.geteuid() == 0 else os.geteuid()
        jail.change_root(stage, scratch.SIZE, owner, more, packages, processes)
        packages = packages and jail.PACKAGES
        folder = jail.SCRATCH
        layers.append("private-root")
    if os.geteuid() == 0:
        if refused:
            os.chown(stage, uid, uid)
        jail.become(uid)
        layers.append("unprivileged-uid")
    if not os.access(os.__file__, os.R_OK):
        raise SystemExit(f"{os.__file__} can't be read by uid {uid}: programs couldn't import the standard library")
    jail.seal()
    os.environ["HOME"] = os.environ["TMPDIR"] = folder
    layers += ["no-new-privs", "rlimits", "clean-environment"]
    if "private-root" not in layers:
        # by a path, programs could open what this descriptor lets the keeper open
        os.close(proc)
        proc = -1
    if jail.confine_files(folder, (*more, packages) if packages else more, proc, processes):
        layers.append("landlock")
    if seccomp.supported():
        layers.append("seccomp")
    data_bytes = _warm_up(packages, setup["warm"], statm)
    os.close(statm)
    scratch.empty(folder)
    if processes:
        _demand_holds_processes(layers)
    account = _account(setup["cpu_usage"]) if processes else None
    return Locked(layers, folder, refused, ProcessTree(proc, processes), processes, account, data_bytes)


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


def _warm_up(packages: str, names: list[str], statm: int) -> int:
    """Loads what programs import most of a runtime's packages: inside the cage, by the paths that programs know.

    Returns the bytes of writable memory that this process has then: what RLIMIT_DATA counts.
    """
    if not packages:
        return 0
    sys.path.append(packages)
    os.environ["PYTHONPATH"] = packages  # for the Pythons that a program starts
    for name in names:
        importlib.import_module(name)
    return int(os.pread(statm, 256, 0).split()[5]) * os.sysconf("SC_PAGESIZE")
