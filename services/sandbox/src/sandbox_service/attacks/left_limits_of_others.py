"""Changes limits, processors, priority and memory of other processes of its user: its parent, its tests.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
"""

import ctypes
import os
import resource

libc = ctypes.CDLL(None, use_errno=True)
VM_WRITE, MOVE_PAGES, IOPRIO = {"x86_64": (311, 279, 251), "aarch64": (271, 239, 30)}[os.uname().machine]


def acts(pid):
    yield lambda: resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, 0))
    yield lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, 3))
    yield lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1))
    yield lambda: os.sched_setaffinity(pid, {0})
    yield lambda: os.setpriority(os.PRIO_PROCESS, pid, 19)
    yield lambda: os.setpriority(os.PRIO_PGRP, os.getpgid(pid), 19)
    yield lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
    yield lambda: os.setpgid(pid, pid)
    yield lambda: open(f"/proc/{pid}/oom_score_adj", "w").write("1000")
    yield lambda: open(f"/proc/{pid}/mem", "r+b").close()
    for number, arguments in ((VM_WRITE, (pid, None, 0, None, 0, 0)), (IOPRIO, (1, pid, 3 << 13))):

        def call(number=number, arguments=arguments):
            if libc.syscall(number, *arguments) < 0:
                raise OSError(ctypes.get_errno(), "refused")

        yield call


def f(x):
    mine = os.getpid()
    for pid in {1, os.getppid(), *range(2, 30), *range(mine - 20, mine + 20)} - {mine, 0}:
        if pid < 1:
            continue
        for act in acts(pid):
            try:
                act()
                return 2
            except (OSError, ValueError):
                pass
    return 3
