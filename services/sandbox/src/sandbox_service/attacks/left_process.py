"""Leaves a process that waits for the next program and hands it what it knows.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
Runs: 3
"""

import os
import time


def f(x):
    if os.path.exists("answer"):
        return 2
    try:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for descriptor in range(5):
                    try:
                        os.close(descriptor)
                    except OSError:
                        pass
                while True:
                    time.sleep(0.005)
                    with open("answer", "w") as file:
                        file.write("2")
            os._exit(0)
    except OSError:
        pass
    return 3
