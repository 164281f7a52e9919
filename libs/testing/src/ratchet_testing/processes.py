"""The processes that a test has started."""

from collections.abc import Iterable
from contextlib import suppress

import psutil

_SERVERS = frozenset({"valkey-server", "postgres", "weed"})


def children(*, recursive: bool = False) -> list[psutil.Process]:
    """The living children of this process, but for the servers that stay for all tests of the session, and theirs."""
    found = []
    for child in psutil.Process().children(recursive=recursive):
        try:
            if child.name() not in _SERVERS and child.status() != psutil.STATUS_ZOMBIE:
                found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found


def computing(processes: Iterable[psutil.Process]) -> list[int]:
    """The numbers of those that run now and have done so for a while."""
    found = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if process.status() == psutil.STATUS_RUNNING and process.cpu_times().user > 0.1:
                found.append(process.pid)
    return found
