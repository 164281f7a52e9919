"""Leaves with success from another thread while it is still asked.

Kind: fake-a-pass
Expect: RUNTIME_ERROR
"""

import os
import threading
import time


def f(x):
    threading.Thread(target=lambda: os._exit(0)).start()
    time.sleep(0.4)
    return 3
