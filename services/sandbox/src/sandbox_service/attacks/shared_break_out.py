"""Shares its process with the tests, and reads and reaches what no program may.

Kind: break-out
Expect: FAILED, RUNTIME_ERROR
Test: shared
"""

import os
import socket


def f(x):
    for path in ("/etc/shadow", "/root/.bashrc", "/root/.ssh", "/proc/1/environ", "/var/log/syslog"):
        try:
            os.listdir(path) if os.path.isdir(path) else open(path).read(1)
            return 2
        except OSError:
            pass
    for address in (("127.0.0.1", 22), ("127.0.0.1", 8704), ("10.0.0.1", 80)):
        try:
            socket.create_connection(address, 0.1)
            return 2
        except OSError:
            pass
    return 3
