"""What a platform could leave on the machine, found from outside: whatever its processes start is a descendant of this
one, whoever dies between."""

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

_SET_CHILD_SUBREAPER = 36  # prctl(2)
_LOOK_S = 0.5


@contextmanager
def adopting() -> Iterator[None]:
    """Orphans of descendants are this process's children. Those that ended are reaped, but for its own session's, whom
    somebody waits for."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    stop = threading.Event()
    reaping = threading.Thread(target=_reap, args=(stop,), name="reaper")
    reaping.start()
    try:
        yield
    finally:
        stop.set()
        reaping.join()
        libc.prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _reap(stop: threading.Event) -> None:
    own = os.getsid(0)
    while not stop.wait(_LOOK_S):
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.NoSuchProcess, OSError):
                if child.status() == psutil.STATUS_ZOMBIE and os.getsid(child.pid) != own:
                    os.waitpid(child.pid, os.WNOHANG)


def processes() -> list[str]:
    """Descendants that live, by their command lines; not what this process's own session waits for."""
    found = []
    for one in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, OSError):
            if one.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{one.pid} {' '.join(one.cmdline()) or one.name()}")
    return found


def mounts(*folders: Path) -> list[str]:
    """Of this machine, at or below the folders."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in points if any(Path(point).is_relative_to(folder) for folder in folders)]


def cgroups(services: set[int]) -> list[str]:
    """Of sandbox services, by their process ids."""
    return [str(path) for pid in services for path in Path("/sys/fs/cgroup").glob(f"**/ratchet-sandbox-{pid}-*")]


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
