"""Leaves a mask, a folder, limits, a priority and processors chosen, for whoever is forked after it.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
Runs: 3
"""

import ctypes
import os
import resource
import signal
import sys
import threading

libc = ctypes.CDLL(None)


def f(x):
    mask = os.umask(0o777)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
    ignored = signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN
    slack = libc.prctl(30)
    if mask == 0o777 or signal.SIGUSR1 in blocked or ignored or slack == 77 or os.getcwd() == "/":
        return 2
    if (
        sys.flags.utf8_mode == 7
        or resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 7
        or threading.stack_size() == 1 << 16
    ):
        return 2
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    libc.prctl(29, 77)
    threading.stack_size(1 << 16)
    for act in (
        lambda: os.chdir("/"),
        lambda: os.nice(5),
        lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (7, 7)),
        lambda: os.sched_setaffinity(0, {0}),
        lambda: os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)),
    ):
        try:
            act()
        except OSError:
            pass
    return 3
