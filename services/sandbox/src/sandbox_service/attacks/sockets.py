"""Opens a socket of any family.

Kind: break-out
Expect: FAILED
Profile: strict
Probe: yes
"""

import socket


def f(x):
    for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.AF_NETLINK, socket.AF_PACKET):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
            try:
                socket.socket(family, kind)
                return 2
            except OSError:
                pass
    try:
        socket.create_connection(("127.0.0.1", 8704), timeout=1)
        return 2
    except OSError:
        return 3
