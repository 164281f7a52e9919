"""Leaves writers of its standard output behind, which go on when the next program's begins.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR, TIME_LIMIT, OUTPUT_LIMIT
Profile: processes
Test: stdio
Runs: 3
"""

import os
import signal
import time

for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        while True:
            try:
                os.write(1, b"2\n")
            except OSError:
                pass
            time.sleep(0.001)
os.write(1, b"3\n")
os._exit(0)
