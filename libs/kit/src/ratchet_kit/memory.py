"""The memory of this machine, as far as this process may use it."""

import os
from pathlib import Path


def of_machine(cgroup: Path = Path("/sys/fs/cgroup/memory.max")) -> int:
    """Bytes of the machine, or of the container where that may use less (cgroups, version 2)."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        return min(whole, int(cgroup.read_text()))
    except (OSError, ValueError):  # no such file, or "max"
        return whole


def free(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that a new process could have, on the machine or in the container where that leaves less.

    What the kernel keeps of files in memory is free: it gives that up where a process needs it.
    """
    lines = dict(line.split(":") for line in meminfo.read_text().splitlines())
    available = int(lines["MemAvailable"].split()[0]) << 10
    try:
        left = int((cgroup / "memory.max").read_text()) - int((cgroup / "memory.current").read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return available
    counts = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
    left += sum(int(counts.get(kind, 0)) for kind in ("active_file", "inactive_file"))
    return max(0, min(available, left))


def kills(vmstat: Path = Path("/proc/vmstat")) -> int:
    """Processes that the kernel of this machine has killed for want of memory, ever; 0 where it does not count."""
    try:
        counted = dict(line.split() for line in vmstat.read_text().splitlines())
    except OSError:
        return 0
    return int(counted.get("oom_kill", 0))
