"""Puts itself before all others: niceness, real time, disk, processor.

Kind: break-out
Expect: FAILED
"""

import os


def f(x):
    attempts = [
        lambda: os.setpriority(os.PRIO_PROCESS, 0, -5),
        lambda: os.nice(-5),
        lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(10)),
        lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10)),
        lambda: os.sched_setaffinity(0, {0}),
    ]
    for attempt in attempts:
        try:
            attempt()
            return 2
        except OSError:
            pass
    return 3
