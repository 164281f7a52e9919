"""Learns the name of the machine.

Kind: break-out
Expect: FAILED
From: L2
Probe: yes
"""

import os


def f(x):
    return 3 if os.uname().nodename == "sandbox" else 2
