"""Takes memory in the buffers of sockets that nobody reads.

Kind: overspend
Expect: MEMORY_LIMIT, RUNTIME_ERROR, FAILED
"""

import socket


def f(x):
    kept, held = [], 0
    try:
        for _ in range(1000):
            a, b = socket.socketpair()
            kept.append((a, b))
            for one in (a, b):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30)
                one.setblocking(False)
                try:
                    while True:
                        held += one.send(b"x" * (1 << 17))
                except BlockingIOError:
                    pass
    except OSError:
        pass
    return 2 if held > 300 << 20 else 3
