"""Leaves a local socket without a name in any folder, on which the next program finds it.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
Runs: 3
"""

import socket


def f(x):
    try:
        socket.socket(socket.AF_UNIX).connect("\0left")
        return 2
    except OSError:
        pass
    try:
        server = socket.socket(socket.AF_UNIX)
        server.bind("\0left")
        server.listen()
        server.detach()
    except OSError:
        pass
    return 3
