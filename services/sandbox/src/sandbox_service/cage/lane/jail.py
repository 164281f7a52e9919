"""Namespaces, identity and limits of the calling process: each step is taken once, and for good.

Whoever starts it, a lane gets a user namespace of its own, in which it is INSIDE_ID and may mount. Its capabilities
are worth nothing outside, and no program gets them: keeper and zygote keep one, to make each program's world anew.
"""

import os
import resource
import sys
from collections.abc import Callable

from sandbox_service.cage.kernel import libc

INSIDE_ID = 1000
_NAMESPACES = libc.CLONE_NEWNS | libc.CLONE_NEWPID | libc.CLONE_NEWNET | libc.CLONE_NEWIPC | libc.CLONE_NEWUTS
TASKS = 256
_RESERVE = 1 << 30
# Of one shared anonymous mapping, in bytes, where no cgroup counts memory: what was written there and is no longer
# mapped can't be seen. Without processes and with. There may be 65530 mappings (vm.max_map_count).
SHARED_BYTES = {False: 16 << 10, True: 1 << 20}


def refusal(attempt: Callable[[], None]) -> str:
    """Tries in a child what can't be taken back. The kernel's complaint, or nothing: then it will work.

    Kernels and containers refuse in many places: the namespaces, the maps, the mounts, pivot_root.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            attempt()
        except OSError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader) as complaint:
        text = complaint.read()
    os.waitpid(child, 0)
    return text


def unshare(uid: int) -> list[str]:
    """Enters fresh namespaces as INSIDE_ID, which outside is `uid`; the next fork is pid 1. Returns the layers won.

    Only root may be given another `uid` than its own. Raises OSError.
    """
    root = os.geteuid() == 0
    identity = (uid, uid) if root else (os.geteuid(), os.getegid())
    if root:
        os.setgroups([])
        with _Mapper(identity) as mapper:
            libc.unshare(_NAMESPACES | libc.CLONE_NEWUSER)
            mapper.map()
        os.setresgid(INSIDE_ID, INSIDE_ID, INSIDE_ID)
        os.setresuid(INSIDE_ID, INSIDE_ID, INSIDE_ID)
    else:
        libc.unshare(_NAMESPACES | libc.CLONE_NEWUSER)
        _write_maps("self", identity)
    libc.set_host_name("sandbox")
    layers = ["user-ns", "mount-ns", "pid-ns", "net-ns", "ipc-ns", "uts-ns"]
    return [*layers, "unprivileged-uid"] if root else layers


class _Mapper:
    """A child that stays root, where its parent was before it unshared: it says who the parent is inside."""

    def __init__(self, identity: tuple[int, int]) -> None:
        self._go, go = os.pipe()
        self._parent = os.getpid()
        self._child = os.fork()
        if self._child == 0:
            status = 1
            try:
                os.close(go)
                if os.read(self._go, 1):
                    _write_maps(str(self._parent), identity)
                status = 0
            except OSError as error:
                status = error.errno or 1
            finally:
                os._exit(status)
        os.close(self._go)
        self._go = go

    def __enter__(self) -> "_Mapper":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._go)
        if self._child:
            os.waitpid(self._child, 0)

    def map(self) -> None:
        """Raises OSError."""
        os.write(self._go, b".")
        child, self._child = self._child, 0
        if number := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            raise OSError(number, f"the maps of the user namespace: {os.strerror(number)}")


def _write_maps(process: str, identity: tuple[int, int]) -> None:
    uid, gid = identity
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{INSIDE_ID} {uid} 1"),
        ("gid_map", f"{INSIDE_ID} {gid} 1"),
    ):
        with open(f"/proc/{process}/{name}", "w") as file:
            file.write(text)


def become(uid: int) -> None:
    """Root gives itself up for `uid`. The kernel clears every capability on the way: capabilities(7)."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def seal(keep: int = 0) -> None:
    """No new privilege, no look from outside, dead with the parent; no capability but those of the mask `keep`."""
    libc.empty_bounding_set()
    libc.set_capabilities(keep)
    libc.prctl(libc.PR_SET_NO_NEW_PRIVS, 1)
    # a change of uid clears the death signal, so it's set here and not before
    libc.prctl(libc.PR_SET_PDEATHSIG, 9)
    libc.prctl(libc.PR_SET_DUMPABLE, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def limit_lane(file_bytes: int, descriptors: int) -> None:
    """Hard limits that are the same for all programs: the zygote takes them on itself.

    Not the keeper: the kernel refuses to send descriptors where the user has more in flight than the sender may open.
    """
    for kind, value in (
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_NOFILE, descriptors),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_SIGPENDING, 1024),  # timers count as well
    ):
        resource.setrlimit(kind, (value, value))


def limit_program(memory_bytes: int, cpu_seconds: float, processes: bool, tasks: int = TASKS) -> None:
    """Hard limits of one program; with `processes`, of each of its processes.

    They are backstops: the keeper measures time and memory (limits.py). DATA leaves room for stacks that a program
    asks for and never touches (threading.stack_size(512 MiB)), AS also for what threads and libraries reserve. With
    `processes` both are without end, as run-time systems reserve that way. The stack may grow to nearly all of the
    memory: its end is met before the memory's, so that endless recursion always ends as such.
    """
    unlimited = resource.RLIM_INFINITY
    data, space, seconds = memory_bytes + _RESERVE, memory_bytes + 2 * _RESERVE, int(cpu_seconds) + 2
    if processes:
        data = space = unlimited
        # Counts all that the uid has in its user namespace. Not for single processes: their threads are bounded by AS,
        # and without namespaces the uid may be that of a whole platform.
        resource.setrlimit(resource.RLIMIT_NPROC, (tasks, tasks))
    stack, most = memory_bytes - memory_bytes // 16, resource.getrlimit(resource.RLIMIT_STACK)[1]
    resource.setrlimit(resource.RLIMIT_STACK, (stack if most == unlimited else min(stack, most), most))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    resource.setrlimit(resource.RLIMIT_DATA, (data, data))


def parent_is(pid: int) -> bool:
    """False if the parent died before PDEATHSIG was set, and nothing would ever stop this process."""
    return os.getppid() == pid or sys.platform != "linux"
