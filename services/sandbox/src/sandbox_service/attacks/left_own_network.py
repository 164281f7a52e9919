"""Changes the network of its lane: addresses, names, rules and counters that the next program would see.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
Runs: 3
"""

import fcntl
import os
import socket
import struct


def f(x):
    try:
        if socket.gethostname() == "marked":
            return 2
        socket.sethostname("marked")
    except OSError:
        pass
    for family in (socket.AF_INET, socket.AF_UNIX, 16):
        try:
            one = socket.socket(family, socket.SOCK_DGRAM)
            flags = struct.unpack_from("h", fcntl.ioctl(one, 0x8913, b"lo".ljust(40, b"\0")), 16)[0]
            if flags & 1:
                return 2
            fcntl.ioctl(one, 0x8914, struct.pack("16sh22x", b"lo", 1))
        except OSError:
            pass
    for path in ("/proc/sys/kernel/hostname", "/proc/sys/net/ipv4/ip_default_ttl", "/proc/sys/kernel/ns_last_pid"):
        try:
            with open(path, "w") as file:
                file.write("77")
            return 2
        except OSError:
            pass
    return 3
