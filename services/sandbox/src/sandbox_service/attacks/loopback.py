"""Calls services of the platform on the ports of this machine.

Kind: break-out
Expect: FAILED
"""

import socket


def f(x):
    for port in (22, 80, 6379, 5432, *range(8700, 8720), 9090, 50051):
        for address in ("127.0.0.1", "::1", "169.254.169.254"):
            try:
                socket.create_connection((address, port), timeout=0.05)
                return 2
            except OSError:
                pass
    return 3
