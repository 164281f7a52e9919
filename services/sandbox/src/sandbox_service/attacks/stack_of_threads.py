"""Gives each of many threads a huge stack and uses it.

Kind: overspend
Expect: RUNTIME_ERROR, MEMORY_LIMIT, FAILED, TIME_LIMIT
"""

import ctypes
import threading


def work():
    ctypes.memset(ctypes.create_string_buffer(32 << 20), 1, 32 << 20)
    threading.Event().wait(0.3)


def f(x):
    threading.stack_size(256 << 20)
    threads = [threading.Thread(target=work) for _ in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 3
