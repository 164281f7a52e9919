"""Uses no CPU at all.

Kind: break-out
Expect: TIME_LIMIT
"""

import time


def f(x):
    time.sleep(1000)
