"""Opens a socket of any family but the local one.

Kind: break-out
Expect: FAILED
Probe: yes
"""

import socket


def f(x):
    for family in range(2, 47):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            try:
                socket.socket(family, kind)
                return 2
            except OSError:
                pass
    return 3
