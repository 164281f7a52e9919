"""Changes what its descriptors have in common with those of later programs: flags, owner, signal, pipe size, seals.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
Runs: 3
"""

import fcntl
import os

SEAL, SEALS, OWNER, SIGNAL, PIPE = 1033, 1034, 8, 10, 1031


def state(descriptor):
    found = []
    for command in (fcntl.F_GETFL, 9, 11, SEALS, 1032):
        try:
            found.append(fcntl.fcntl(descriptor, command))
        except OSError:
            found.append(None)
    return found


FLAGS = os.O_APPEND | os.O_NONBLOCK | os.O_ASYNC


def f(x):
    for descriptor in range(5):
        flags, owner, signal, _, size = state(descriptor)
        if flags is not None and (flags & FLAGS or owner or signal or size == 4096):
            return 2
    for descriptor in range(5):
        for command, value in (
            (fcntl.F_SETFL, FLAGS),
            (OWNER, os.getpid()),
            (SIGNAL, 10),
            (PIPE, 4096),
            (SEAL, 0xF),
        ):
            try:
                fcntl.fcntl(descriptor, command, value)
            except OSError:
                pass
    return 3
