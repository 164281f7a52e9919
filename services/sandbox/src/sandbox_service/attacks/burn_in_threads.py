"""Computes in threads at a time, each of them for less than the limit.

Kind: overspend
Expect: TIME_LIMIT, RUNTIME_ERROR
"""

import hashlib
import threading
import time

DATA = b"x" * (1 << 20)
done = []


def go():
    while time.thread_time() < 0.3:
        hashlib.sha256(DATA)
    done.append(1)


def f(x):
    threads = [threading.Thread(target=go) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return 2 if len(done) == 8 else 3
