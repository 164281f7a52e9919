"""Finds and ends what a platform left behind, by the mark that all its processes inherit."""

import os
import time
from pathlib import Path

import psutil

MARK = "RATCHET_INSTANCE"


def marked(home: Path) -> list[psutil.Process]:
    """Every process, children of children included, that the platform of this home started; not the caller."""
    found = []
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        try:
            if process.environ().get(MARK) == str(home) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
            continue
    return found


def sweep(home: Path, grace_s: float = 5.0) -> int:
    """Ends what is left of a platform: SIGTERM, then SIGKILL after `grace_s` seconds. Returns how many there were."""
    left = marked(home)
    for process in left:
        try:
            process.terminate()
        except psutil.NoSuchProcess:
            continue
    _, alive = psutil.wait_procs(left, timeout=grace_s)
    for process in alive:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(alive, timeout=grace_s)
    return len(left)


def memory_bytes(pid: int) -> int:
    """Proportional memory of a process and its descendants (shared pages counted once); 0 when it is gone."""
    try:
        root = psutil.Process(pid)
        tree = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    total = 0
    for process in tree:
        try:
            total += process.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total


def wait_gone(home: Path, timeout_s: float) -> bool:
    """True when no process of the platform is left before the time is over."""
    deadline = time.monotonic() + timeout_s
    while marked(home):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True
