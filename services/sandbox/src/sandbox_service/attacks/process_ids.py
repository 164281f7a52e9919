"""Sees the ids of the machine's processes.

Kind: break-out
Expect: FAILED
From: L2
Profile: strict
Probe: yes
"""

import os


def f(x):
    return 2 if os.getppid() != 1 else 3
