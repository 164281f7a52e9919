"""The processes that a test has started."""

import psutil

_SERVERS = frozenset({"valkey-server", "postgres"})


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
