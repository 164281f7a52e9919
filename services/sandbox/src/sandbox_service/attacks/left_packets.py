"""Puts its standard output into packet mode and leaves packets there: one is read at a time.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR, TAMPERED
Test: stdio
Runs: 3
"""

import fcntl
import os

fcntl.fcntl(1, fcntl.F_SETFL, os.O_WRONLY | os.O_DIRECT)
for i in range(14):
    os.write(1, b"3 %d\n" % i)
os._exit(0)
