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


def kills(vmstat: Path = Path("/proc/vmstat")) -> int:
    """Processes that the kernel of this machine has killed for want of memory, ever; 0 where it does not count."""
    try:
        counted = dict(line.split() for line in vmstat.read_text().splitlines())
    except OSError:
        return 0
    return int(counted.get("oom_kill", 0))
