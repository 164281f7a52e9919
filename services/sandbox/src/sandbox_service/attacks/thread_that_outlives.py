"""Leaves a thread behind that still prints.

Kind: fake-a-pass
Expect: FAILED
"""

import threading
import time


def later():
    while True:
        time.sleep(0.001)
        print("PASSED")


def f(x):
    threading.Thread(target=later).start()
    return 3
