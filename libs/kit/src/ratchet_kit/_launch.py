"""Becomes the program in argv[2:], after asking the kernel for SIGTERM at the parent's death.

Run as a file by `process.ProcessGroup`: the same in `preexec_fn` would run Python between fork and exec in a process
that has gRPC's threads, which can deadlock.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    parent, program = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it died before the request took effect
        sys.exit(1)
    try:
        os.execvp(program[0], program)
    except OSError as error:
        print(f"cannot start {program[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127)
