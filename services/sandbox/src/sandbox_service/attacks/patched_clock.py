"""Stops every clock that it can reach and then takes its time.

Kind: fake-a-pass
Expect: TIME_LIMIT
"""

import resource
import time

for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime"):
    setattr(time, name, lambda *_: 0.0)
resource.getrusage = lambda *_: None


def f(x):
    while time.process_time() < 1:
        pass
    return 3
