"""Runs twice at a time: one takes a name of a socket, the other finds it taken or speaks to it.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
At once: 2
Runs: 2
"""

import errno
import socket
import time


def f(x):
    kept = []
    for family, address in (
        (socket.AF_UNIX, "\0mark"),
        (socket.AF_INET, ("127.0.0.1", 47_811)),
        (socket.AF_INET6, ("::1", 47_812)),
    ):
        try:
            one = socket.socket(family)
            kept.append(one)
            one.bind(address)
            one.listen()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return 2
    time.sleep(0.15)
    return 3
