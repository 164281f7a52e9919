"""Threads that never end, as many as there may be.

Kind: overspend
Expect: TIME_LIMIT, RUNTIME_ERROR
"""

import threading


def spin():
    while True:
        pass


def f(x):
    while True:
        threading.Thread(target=spin).start()
