"""Sends data out as the name of a machine to look up.

Kind: break-out
Expect: FAILED
"""

import socket


def f(x):
    for name in ("example.org", "secret.example.org", "localhost"):
        try:
            socket.getaddrinfo(name, 80)
            return 2
        except OSError:
            pass
    return 3
