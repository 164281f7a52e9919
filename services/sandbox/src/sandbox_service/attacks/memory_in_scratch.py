"""Takes its memory in files of its folder and of /dev/shm together.

Kind: overspend
Expect: MEMORY_LIMIT, RUNTIME_ERROR, FAILED
From: L2
"""

import os


def f(x):
    written = 0
    for place in (".", "/tmp", "/dev/shm", "/var/tmp"):
        try:
            with open(os.path.join(place, "big"), "wb") as file:
                for _ in range(400):
                    file.write(b"x" * (1 << 20))
                    file.flush()
                    written += 1
        except OSError:
            pass
    return 2 if written > 300 else 3
