"""Sees that files of the machine are there, if not what is in them.

Kind: break-out
Expect: FAILED
From: L2
Profile: strict
Probe: yes
"""

import os


def f(x):
    paths = ("/etc/passwd", "/etc/hostname", "/var/log", "/proc/1", "/proc/meminfo", "/sys/kernel", "/boot", "/dev/pts")
    return 2 if any(os.path.exists(path) for path in paths) else 3
