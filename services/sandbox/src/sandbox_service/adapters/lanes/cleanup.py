"""What programs could have left on the machine, found from outside: by /proc, and by what the service itself made."""

import contextlib
import os
from collections import defaultdict
from pathlib import Path

STAGE_PREFIX = "ratchet-sandbox-"


def members(pid: int) -> set[int]:
    """A process, its descendants, and those of its session, whatever became of their parents."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                stat = Path(f"/proc/{entry}/stat").read_bytes().rpartition(b")")[2].split()
                if stat[0] == b"Z":
                    continue
                children[int(stat[1])].append(int(entry))
                if int(stat[3]) == pid:
                    found.add(int(entry))
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        found.add(one)
        waiting += children[one]
    return found


def mounts(pid: int) -> int:
    """The number of mounts that a process has of its own; 0 once it's gone, and where it has the machine's."""
    try:
        if os.path.samefile(f"/proc/{pid}/ns/mnt", "/proc/self/ns/mnt"):
            return 0
        return Path(f"/proc/{pid}/mounts").read_bytes().count(b"\n")
    except OSError:
        return 0


def stages(own: set[str], folder: Path) -> list[str]:
    """Folders that lanes of this process were built on and that no lane owns any more."""
    there = {str(path) for path in folder.glob(f"{STAGE_PREFIX}{os.getpid()}-*")}
    return sorted(there - own)


def abandoned(folder: Path) -> list[str]:
    """Folders that lanes or workspaces were built on, of services that are no more."""
    found = [
        (path, path.name.removeprefix(STAGE_PREFIX).partition("-")[0]) for path in folder.glob(f"{STAGE_PREFIX}*-*")
    ]
    return sorted(str(path) for path, pid in found if pid.isdigit() and not os.path.exists(f"/proc/{pid}"))
