"""Arms timers of every kind and ends: whoever comes next would be shot by them.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
"""

import ctypes
import os
import signal

TIMER_CREATE, TIMER_SETTIME = {"x86_64": (222, 223), "aarch64": (107, 110)}[os.uname().machine]


def f(x):
    libc = ctypes.CDLL(None)
    timer = ctypes.c_int()
    spec = (ctypes.c_long * 4)(0, 1_000_000, 0, 1_000_000)
    for clock in (0, 1, 2, 3):
        if libc.syscall(TIMER_CREATE, clock, None, ctypes.byref(timer)) == 0:
            libc.syscall(TIMER_SETTIME, timer, 0, spec, None)
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.001)
    os._exit(0)
