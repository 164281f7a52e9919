"""Fills pipes and socket pairs, whose memory is the kernel's and counted nowhere.

Kind: overspend
Expect: RUNTIME_ERROR, FAILED, MEMORY_LIMIT, TIME_LIMIT
"""

import fcntl
import os
import socket


def f(x):
    total = 0
    while total < 1 << 30:
        reader, writer = os.pipe2(os.O_NONBLOCK)
        try:
            fcntl.fcntl(writer, 1031, 1 << 20)
        except OSError:
            pass
        left, right = socket.socketpair()
        left.setblocking(False)
        left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
        for write in (lambda: os.write(writer, b"x" * 65536), lambda: left.send(b"x" * 65536)):
            try:
                while True:
                    total += write()
            except BlockingIOError:
                pass
        left.detach(), right.detach()
    return 2
