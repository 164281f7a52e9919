"""Runs a program for `process.ProcessGroup` and sees to it that nothing the program started outlives it.

    python -I -S _guard.py PARENT_PID ORPHAN_GRACE_SECONDS REPORT_FD PROGRAM [ARGUMENT ...]

The guard is the program's parent and, as a child subreaper (prctl(2)), becomes the parent of whatever the program's
children leave behind, whichever session or group they moved to: Ray's and vLLM's helpers do move.

- SIGTERM, and the death of PARENT_PID: SIGTERM for the program's group; in the second case SIGKILL after the grace.
- SIGUSR1: SIGKILL for everything at once.
- The program's end: SIGTERM for what is left, SIGKILL after `REST_GRACE`; the guard then ends in the same way as it.
- The guard's own death by SIGKILL: the kernel kills the program.

REPORT_FD gets "<pid of the program>\\n", then "<errno>\\n" if the program could not be started, then end of file.
A process of its own and not a `preexec_fn`: that would run Python between fork and exec in a process with gRPC's
threads, which can deadlock. Standard library only.
"""

import ctypes
import os
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
REST_GRACE = 2.0
POLL = 0.05
HANDLED = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD}

prctl = ctypes.CDLL(None, use_errno=True).prctl


def start(program: list[str], report: int) -> int:
    """Starts the program in a session of its own and returns its pid."""
    guard = os.getpid()
    child = os.fork()
    if child:
        os.write(report, f"{child}\n".encode())
        return child
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == guard:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
            os.execvp(program[0], program)
    except OSError as error:
        os.write(report, f"{error.errno}\n".encode())
    os._exit(127)


def let_go_of_files() -> None:
    """Closes what was inherited for the program, so that the other end sees the program's end and not the guard's."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    for entry in os.listdir("/proc/self/fd"):
        if int(entry) > 2:
            try:
                os.close(int(entry))
            except OSError:  # the listing's own
                pass


def reap() -> dict[int, int] | None:
    """The wait statuses of the children that have ended, by pid; None when there is no child at all."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended or None
        if pid == 0:
            return ended
        ended[pid] = status


def children() -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as stat:
                    # pid (name) state ppid ...: the name may hold spaces and brackets
                    parent = int(stat.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
            if parent == os.getpid():
                found.append(int(entry))
    return found


def send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def watch(child: int, parent: int, orphan_grace: float) -> tuple[int, bool]:
    """Waits for the program's end, handing on what is asked of it: its wait status, and whether it had to be killed."""
    deadline, killed = None, False
    while True:
        if deadline is None:
            got = signal.sigwaitinfo(HANDLED).si_signo
        else:
            info = signal.sigtimedwait(HANDLED, max(0.0, deadline - time.monotonic()))
            got = info.si_signo if info else signal.SIGUSR1
        if got == signal.SIGUSR1:
            send(-child, signal.SIGKILL)
            deadline, killed = None, True
        elif got != signal.SIGCHLD:
            send(-child, signal.SIGTERM)
            if os.getppid() != parent:
                deadline = time.monotonic() + orphan_grace
        status = (reap() or {}).get(child)
        if status is not None:
            return status, killed


def end_the_rest(grace: float) -> None:
    """Ends all that the program left behind; each round also meets those whose parent ended in the last."""
    patience = time.monotonic() + grace
    signalled: set[int] = set()
    while reap() is not None:
        impatient = time.monotonic() >= patience
        for pid in children():
            if impatient:
                send(pid, signal.SIGKILL)
            elif pid not in signalled:
                signalled.add(pid)
                send(pid, signal.SIGTERM)
        info = signal.sigtimedwait(HANDLED, POLL)
        if info and info.si_signo == signal.SIGUSR1:
            patience = 0.0


def end_like(status: int) -> None:
    """Ends this process as the program ended: with the same exit code or by the same signal."""
    number = os.waitstatus_to_exitcode(status)
    if number >= 0:
        os._exit(number)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    if -number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(-number, signal.SIG_DFL)
    os.kill(os.getpid(), -number)
    os._exit(128 - number)


def main() -> None:
    parent, orphan_grace, report, program = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    os.set_inheritable(report, False)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it died before the request took effect
        os._exit(1)
    child = start(program, report)
    let_go_of_files()
    status, killed = watch(child, parent, orphan_grace)
    end_the_rest(0.0 if killed else REST_GRACE)
    end_like(status)


if __name__ == "__main__":
    main()
