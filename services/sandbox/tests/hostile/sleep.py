"""Uses no CPU at all.

Expect: TIME_LIMIT
"""

import time


def f(x):
    time.sleep(1000)
