"""Opens and makes devices: memory, disks, terminals, virtual machines.

Kind: break-out
Expect: FAILED
"""

import glob
import os
import stat

KNOWN = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
WANTED = ["mem", "kmem", "port", "sda", "vda", "nvme0n1", "kvm", "fuse", "net/tun", "tty", "console", "ptmx", "kmsg"]


def f(x):
    for path in {*glob.glob("/dev/*"), *(f"/dev/{name}" for name in WANTED)} - KNOWN:
        try:
            if not os.path.isdir(path):
                os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                return 2
        except OSError:
            pass
    for kind, number in (
        (stat.S_IFBLK, (8, 0)),
        (stat.S_IFBLK, (254, 0)),
        (stat.S_IFCHR, (1, 1)),
        (stat.S_IFCHR, (5, 0)),
    ):
        try:
            os.mknod("device", kind | 0o600, os.makedev(*number))
            os.open("device", os.O_RDONLY | os.O_NONBLOCK)
            return 2
        except OSError:
            pass
    return 3
