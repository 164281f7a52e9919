"""Many threads that wake at the same time: each waits for all the others, and then all sleep.

Kind: break-out
Expect: TIME_LIMIT, RUNTIME_ERROR
"""

import threading
import time


def work(end):
    while time.monotonic() < end:
        sum(range(2000))
        time.sleep(0.1)


def f(x):
    end = time.monotonic() + 6
    threads = [threading.Thread(target=work, args=(end,)) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 2
