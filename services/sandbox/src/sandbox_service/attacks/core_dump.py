"""Makes itself dumpable and crashes: a core in its folder, or a handler of the machine that reads its memory.

Kind: break-out
Expect: RUNTIME_ERROR, FAILED
Runs: 2
"""

import ctypes
import glob
import os
import resource


def f(x):
    if glob.glob("*core*"):
        return 2
    resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
    if ctypes.CDLL(None).prctl(4, 1, 0, 0, 0) == 0 and resource.getrlimit(resource.RLIMIT_CORE)[0] != 0:
        return 2
    os.abort()
