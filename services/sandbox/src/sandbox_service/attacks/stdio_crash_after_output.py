"""Prints and dies, so that the output is taken and the death is not seen.

Kind: fake-a-pass
Expect: RUNTIME_ERROR
Test: stdio
"""

import os
import signal

print(int(input()) + 1, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
