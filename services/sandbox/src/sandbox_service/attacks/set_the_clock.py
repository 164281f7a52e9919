"""Sets the clock, the host name, the time zone of the machine.

Kind: break-out
Expect: FAILED
"""

import socket
import time


def f(x):
    for attempt in (
        lambda: time.clock_settime(time.CLOCK_REALTIME, 0),
        lambda: socket.sethostname("mine"),
    ):
        try:
            attempt()
            return 2
        except OSError:
            pass
    return 3
