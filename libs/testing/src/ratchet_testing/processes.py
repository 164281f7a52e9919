"""The processes that a test has started."""

import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil

from ratchet_kit.process import ProcessGroup

_SERVERS = frozenset({"valkey-server", "postgres", "weed"})


@asynccontextmanager
async def process(log: Path, *command: str, **env: str) -> AsyncIterator[ProcessGroup]:
    """Runs a command, and stops it with all that it has started. `env`: beside this process's. `log` gets what it
    prints."""
    with log.open("ab") as out:
        group = await ProcessGroup.start(command, env={**os.environ, **env}, stdout=out, stderr=out)
        try:
            yield group
        finally:
            await group.stop()


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
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            if one.status() == psutil.STATUS_RUNNING and one.cpu_times().user > 0.1:
                found.append(one.pid)
    return found
