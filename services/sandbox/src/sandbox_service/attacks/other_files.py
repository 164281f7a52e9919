"""Reads files that are none of its business.

Kind: break-out
Expect: FAILED
Probe: yes
"""

import glob
import os

WANTED = ["/etc/passwd", "/etc/shadow", "/etc/hostname", "/proc/self/status", "/proc/1/cmdline", "/sys/kernel/version"]
WANTED += ["/root/.bashrc", "/home", "/work", "/var/log", "/run", "/boot", "/etc/resolv.conf", "/dev/vda", "/dev/kmsg"]


def f(x):
    found = []
    for path in WANTED + glob.glob("/*/.ssh/*") + glob.glob("/tmp/*/*"):
        try:
            if os.path.isdir(path):
                os.listdir(path)
            else:
                open(path, "rb").read(1)
            found.append(path)
        except OSError:
            pass
    return 2 if found else 3
