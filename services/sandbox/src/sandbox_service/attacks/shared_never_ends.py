"""Shares its process with the tests, and neither ends nor lets them end.

Kind: deny
Expect: TIME_LIMIT
Test: shared
"""

import signal
import threading

for number in range(1, 32):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass


def f(x):
    threading.Thread(target=f, args=(x,)).start()
    while True:
        pass
