"""Ends wrong, and has a thread print on.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR, TIME_LIMIT, OUTPUT_LIMIT
Test: stdio
"""

import threading
import time


def later():
    for _ in range(50):
        time.sleep(0.002)
        print("PASSED")


threading.Thread(target=later, daemon=True).start()
print("3")
