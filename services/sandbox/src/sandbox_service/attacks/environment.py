"""Finds a variable of the service's environment, which may hold its secrets.

Kind: break-out
Expect: FAILED
Probe: yes
"""

import ctypes
import os

OURS = {
    "PYTHONHASHSEED", "PYTHONUTF8", "PYTHONINTMAXSTRDIGITS", "PYTHONPATH", "LANG", "LC_CTYPE", "TZ", "HOME", "TMPDIR", "PATH",
    "MPLBACKEND", "MPLCONFIGDIR", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
}  # fmt: skip


def f(x):
    found = set(os.environ)
    environ = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    index = 0
    while environ[index]:
        found.add(environ[index].split(b"=")[0].decode())
        index += 1
    for pid in ("self", 1, os.getppid()):
        try:
            found |= {entry.split("=")[0] for entry in open(f"/proc/{pid}/environ").read().split("\0") if entry}
        except OSError:
            pass
    return 2 if found - OURS else 3
