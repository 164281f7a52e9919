"""Uses up the open files of its user by sending descriptors into sockets that nobody reads.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR, MEMORY_LIMIT
"""

import array
import os
import socket

kept = []


def f(x):
    try:
        for _ in range(200):
            a, b = socket.socketpair()
            kept.append((a, b))
            a.setblocking(False)
            for _ in range(200):
                descriptors = array.array("i", [os.open("/dev/null", os.O_RDONLY) for _ in range(50)])
                try:
                    a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
                finally:
                    for one in descriptors:
                        os.close(one)
    except OSError:
        pass
    return 3
