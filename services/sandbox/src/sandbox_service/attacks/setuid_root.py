"""Becomes root again.

Kind: break-out
Expect: FAILED
Probe: yes
"""

import os


def f(x):
    for attempt in (
        lambda: os.setuid(0),
        lambda: os.seteuid(0),
        lambda: os.setresuid(0, 0, 0),
        lambda: os.setgid(0),
        lambda: os.setgroups([0]),
    ):
        try:
            attempt()
            return 2
        except OSError:
            pass
    return 2 if os.geteuid() == 0 else 3
