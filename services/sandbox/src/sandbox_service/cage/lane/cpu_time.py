"""The CPU time of all that a lane's programs do, whether or not anybody waits for their processes.

What a process used goes to the parent that waits for it. Where the parent ignores SIGCHLD the kernel drops it: then
only an account of another kind has it, the lane's cgroup or a perf event that forks inherit.
"""

import ctypes
import os
import struct
import time

from sandbox_service.cage.kernel import libc

_PERF_EVENT_OPEN = 241 if os.uname().machine == "aarch64" else 298
_SOFTWARE, _TASK_CLOCK, _CLOSE_ON_EXEC = 1, 1, 8
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_PERF_ATTRIBUTES = struct.Struct("=IIQQQQQ64x")


def cpu_clock(pid: int) -> float:
    """The seconds that a process which has not been waited for has used, as clock_getcpuclockid(3) finds them.

    Raises OSError where there's none of that number.
    """
    return time.clock_gettime((~pid << 3) | 2)


class Account:
    """`descriptor`: cpuacct.usage of a cgroup, version 1, or its cpu.stat, version 2; or -1 for a perf event.

    Of all from this process on. Raises OSError where the kernel gives no perf event: kernel.perf_event_paranoid above
    2, or a container's filter.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._perf = descriptor, descriptor < 0
        if self._perf:
            # the time in the kernel is in the clock of a task all the same; to ask for it takes a right
            flags = _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
            attributes = _PERF_ATTRIBUTES.pack(_SOFTWARE, _PERF_ATTRIBUTES.size, _TASK_CLOCK, 0, 0, 0, flags)
            event = libc.syscall(_PERF_EVENT_OPEN, ctypes.c_char_p(attributes), 0, -1, -1, _CLOSE_ON_EXEC)
            self._descriptor = libc.high(event)

    def seconds(self, zygote: int) -> float:
        """All but this process and the one whose number is given: the programs', up to now."""
        return self._total() - time.process_time() - cpu_clock(zygote)

    def _total(self) -> float:
        if self._perf:
            return int.from_bytes(os.read(self._descriptor, 8), "little") / 1e9
        words = os.pread(self._descriptor, 64, 0).split()
        return int(words[1]) / 1e6 if words[0] == b"usage_usec" else int(words[0]) / 1e9
