"""Reads, rewinds and cuts the stream that its answer is taken from.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: stdio
"""

import os

print("3", flush=True)
for attempt in (lambda: os.lseek(1, 0, 0), lambda: os.ftruncate(1, 0), lambda: os.write(1, os.read(1, 100))):
    try:
        attempt()
    except OSError:
        pass
