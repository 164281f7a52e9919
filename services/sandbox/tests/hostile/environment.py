# ruff: noqa: SIM115
"""Reads the service's environment: the secret in it is the answer here.

Expect: FAILED
"""

import ctypes
import os


def f(x):
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_char_p
    found = [os.environ.get("SANDBOX_SECRET"), libc.getenv(b"SANDBOX_SECRET")]
    for path in ("/proc/self/environ", "/proc/1/environ", f"/proc/{os.getppid()}/environ"):
        try:
            data = open(path, "rb").read()
            found.append(data.split(b"SANDBOX_SECRET=")[1][:1] if b"SANDBOX_SECRET=" in data else None)
        except OSError:
            pass
    return 2 if any(found) else sorted(os.environ)
