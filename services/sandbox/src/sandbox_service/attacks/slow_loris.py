"""Works a little and sleeps a lot, so that it never does nothing, and holds its lane.

Kind: break-out
Expect: TIME_LIMIT
"""

import time


def f(x):
    end = time.monotonic() + 6
    while time.monotonic() < end:
        started = time.process_time()
        while time.process_time() < started + 0.0025:
            pass
        time.sleep(0.04)
    return 2
