"""Waits for a child that sleeps, in a state in which no signal reaches it: vfork.

Kind: break-out
Expect: TIME_LIMIT, RUNTIME_ERROR
"""

import os
import subprocess
import time


def f(x):
    end = time.monotonic() + 6
    while time.monotonic() < end:
        if subprocess.run(["/bin/sleep", "0.5"]).returncode:
            os.abort()
    return 2
