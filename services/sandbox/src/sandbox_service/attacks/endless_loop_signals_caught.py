"""Computes for ever and catches what can be caught.

Kind: overspend
Expect: TIME_LIMIT
"""

import resource
import signal


def f(x):
    for number in signal.valid_signals():
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY,) * 2)
    except (OSError, ValueError):
        pass
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
