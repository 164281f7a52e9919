"""Starts another program.

Expect: RUNTIME_ERROR
"""

import subprocess


def f(x):
    return int(subprocess.run(["/bin/sh", "-c", "echo 2"], capture_output=True, check=True).stdout)
