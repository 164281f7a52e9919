"""Starts another program.

Kind: break-out
Expect: RUNTIME_ERROR
Profile: strict
"""

import subprocess


def f(x):
    return int(subprocess.run(["/bin/sh", "-c", "echo 2"], capture_output=True, check=True).stdout)
