"""Seccomp-BPF filters, assembled here so that no library is needed.

They let pass the system calls that programs need, and none that isn't known here: what the kernel has beside them
(syscalls.py) it seems to lack. They refuse what a single-process program never needs: new processes, other programs,
sockets, signals to others, tracing, mounts, namespaces, io_uring, bpf, keyrings, System V IPC, watches of files, what
the kernel has for all users together (io_setup), and the kinds of memory that RLIMIT_DATA doesn't count (anonymous
files, shared anonymous mappings). A denied call fails with EPERM, so the program sees an ordinary OSError. For x86-64
and ARM64, each with its own numbers: see syscalls.py.

Others, for lanes that have their own process and network namespaces, let a program start processes and talk to them,
by signals and local sockets. Memory that RLIMIT_DATA doesn't count is then counted by process_tree.py.

Loading one costs a program 50 microseconds, and 1 more an instruction: the kernel compiles it. So a lane loads once
what it can do without itself, and its zygote what it can do without, which programs inherit. Each program adds the
little that the zygote needs.
"""

import ctypes
import errno
import os
import struct
import sys

from sandbox_service.cage.kernel import libc, syscalls

# The door by which a call entered the kernel: a 32-bit one has other numbers. From linux/include/uapi/linux/audit.h.
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE_THREAD = 0x00010000
CLONE_NAMESPACES = 0x7E020000
AF_UNIX, AF_INET = 1, 2
SOCK_STREAM, _KIND_OF_SOCKET, IPPROTO_TCP = 1, 0xF, 6
SOL_SOCKET, _LAST_TCP_OPTION = 1, 18  # TCP_USER_TIMEOUT: those of before Linux 3
X32_BIT = 0x40000000

MAP_SHARED, MAP_ANONYMOUS = 0x01, 0x20
SOCKET_BUFFERS = (7, 8, 32, 33)  # SO_SNDBUF, SO_RCVBUF and their _FORCE
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
# TCGETS, TCSETS, TCSETSW, TCSETSF, TIOCGPGRP, TIOCSPGRP, TIOCOUTQ, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX:
# of the requests of all devices and file systems, those that honest programs make. Others are not supported.
IOCTL_ALLOWED = (
    0x5401, 0x5402, 0x5403, 0x5404, 0x540F, 0x5410, 0x5411, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451,
)  # fmt: skip
# F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY, F_SETPIPE_SZ, F_SET_RW_HINT, F_SET_FILE_RW_HINT
FCNTL_DENIED = (8, 10, 15, 1024, 1026, 1031, 1036, 1038)
FCNTL_LOCKS = (6, 7, 37, 38)  # F_SETLK, F_SETLKW, and of open file descriptions
PRIO_PROCESS = 0

DENIED = [
    # processes and other programs
    "fork", "vfork", "execve", "execveat", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open",
    "pidfd_send_signal", "pidfd_getfd", "process_madvise", "process_mrelease", "ptrace", "process_vm_readv",
    "process_vm_writev", "kcmp", "sched_setparam", "sched_setscheduler", "sched_setaffinity",
    "sched_setattr", "ioprio_set", "migrate_pages", "move_pages", "personality",
    # the network
    "socket", "connect", "accept", "bind", "listen", "accept4",
    # mounts, namespaces, the kernel itself
    "mount", "umount2", "pivot_root", "chroot", "unshare", "setns", "open_tree", "move_mount", "fsopen",
    "fsconfig", "fsmount", "fspick", "mount_setattr", "statmount", "listmount", "open_by_handle_at", "bpf",
    "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register", "add_key",
    "request_key", "keyctl", "swapon", "swapoff", "reboot", "kexec_load", "kexec_file_load", "init_module",
    "finit_module", "delete_module", "acct", "quotactl", "quotactl_fd", "syslog", "fanotify_init", "seccomp",
    # what would outlive the program or its memory limit
    "shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv",
    "msgctl", "mq_open", "memfd_create", "memfd_secret", "io_setup",
    # what others do with files, and what they have read of them
    "inotify_init", "inotify_init1", "inotify_add_watch", "fanotify_mark", "cachestat",
    # flags of a file that ioctl can't set either
    "file_setattr",
]  # fmt: skip

# What a program needs that may start processes. Its sockets are local ones alone: see assemble_for_lane.
WITH_PROCESSES = {
    "fork", "vfork", "execve", "execveat", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open",
    "pidfd_send_signal", "socket", "connect", "accept", "bind", "listen", "accept4",
}  # fmt: skip

# What the keeper needs, and the zygote no more once it is settled.
FOR_THE_KEEPER = {"memfd_create", "sched_setaffinity", "mount", "umount2"}

# To write out what is on the disks, all programs' files.
WITHOUT_EFFECT = {"sync", "syncfs"}
# Locks on files that others have open, too.
LOCKS = {"flock"}
# Whatever may be changed of a file by a path or a descriptor that isn't open for writing: Landlock doesn't know of it.
ATTRIBUTES = {
    "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "utime", "utimes",
    "futimesat", "utimensat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr",
    "fremovexattr", "removexattrat", "file_setattr",
}  # fmt: skip

_LOAD, _AND, _JUMP, _JEQ, _JGE, _JSET, _RET = 0x20, 0x54, 0x05, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _NOTHING = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS, _ENOTTY = _NOTHING | errno.EPERM, _NOTHING | errno.ENOSYS, _NOTHING | errno.ENOTTY
_NR, _ARCH, _ARG0, _ARG1, _ARG2, _ARG3 = 0, 4, 16, 24, 32, 40


def supported() -> bool:
    return os.uname().machine in AUDIT_ARCH and struct.calcsize("P") == 8


def _instruction(code: int, k: int, jump_true: int = 0, jump_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, jump_true, jump_false, k)


def _preamble(machine: str, numbers: dict[str, int]) -> list[bytes]:
    return [
        _instruction(_LOAD, _ARCH),
        _instruction(_JEQ, AUDIT_ARCH[machine], 1, 0),
        _instruction(_RET, _KILL),
        _instruction(_LOAD, _NR),
        # the numbers of x32 on x86-64; ARM64 has none so high
        _instruction(_JGE, X32_BIT, 0, 1),
        _instruction(_RET, _EPERM),
        # glibc falls back to clone, whose flags a filter can read
        _instruction(_JEQ, numbers["clone3"], 0, 1),
        _instruction(_RET, _ENOSYS),
    ]


def _no_strings_attached(numbers: dict[str, int]) -> list[bytes]:
    """A program may not type into a terminal for others, have the kernel signal others when a descriptor is ready
    (F_SETOWN asks only for the same uid), mark a file, have a socket keep more than usual, or set another process's
    priority."""
    return [
        *_among(numbers["fcntl"], FCNTL_DENIED, _EPERM, _ALLOW),
        *_among(numbers["ioctl"], IOCTL_ALLOWED, _ALLOW, _ENOTTY),
        *_among(numbers["setsockopt"], SOCKET_BUFFERS, _NOTHING, _ALLOW, _ARG2),
        _instruction(_JEQ, numbers["setpriority"], 0, 6),
        _instruction(_LOAD, _ARG0),
        _instruction(_JEQ, PRIO_PROCESS, 0, 3),
        _instruction(_LOAD, _ARG1),
        _instruction(_JEQ, 0, 0, 1),  # itself
        _instruction(_RET, _ALLOW),
        _instruction(_RET, _EPERM),
    ]


def _among(number: int, requests: tuple[int, ...], then: int, otherwise: int, argument: int = _ARG1) -> list[bytes]:
    """For the second argument of a call, or another one."""
    return [
        _instruction(_JEQ, number, 0, 3 + len(requests)),
        _instruction(_LOAD, argument),
        *(_instruction(_JEQ, request, len(requests) - index, 0) for index, request in enumerate(requests)),
        _instruction(_RET, otherwise),
        _instruction(_RET, then),
    ]


def _demand(number: int, *values: int) -> list[bytes]:
    """The first argument of the call must be one of `values`."""
    return [
        _instruction(_JEQ, number, 0, 3 + len(values)),
        _instruction(_LOAD, _ARG0),
        *(_instruction(_JEQ, value, len(values) - index, 0) for index, value in enumerate(values)),
        _instruction(_RET, _EPERM),
        _instruction(_RET, _ALLOW),
    ]


def _deny(numbers: dict[str, int], names: set[str]) -> list[bytes]:
    """The end of a filter."""
    denied = sorted(numbers[name] for name in names if name in numbers)
    steps = [_instruction(_JEQ, number, len(denied) - index, 0) for index, number in enumerate(denied)]
    return [*steps, _instruction(_RET, _ALLOW), _instruction(_RET, _EPERM)]


def _allow_known(numbers: dict[str, int], denied: set[str]) -> list[bytes]:
    """The end of a filter: what is known is allowed unless it's denied, and all else isn't there."""
    refused = {numbers[name] for name in denied if name in numbers}
    answers = {number: _EPERM if number in refused else _ALLOW for number in numbers.values()}
    starts = [(0, answers.get(0, _ENOSYS))]
    for number in range(1, max(answers) + 2):
        answer = answers.get(number, _ENOSYS)
        if answer != starts[-1][1]:
            starts.append((number, answer))
    return _choose(starts)


def _choose(starts: list[tuple[int, int]]) -> list[bytes]:
    """The answer of the last of these that begins at the number, or before it."""
    if len(starts) == 1:
        return [_instruction(_RET, starts[0][1])]
    half = len(starts) // 2
    below, above = _choose(starts[:half]), _choose(starts[half:])
    if len(below) < 256:  # as far as a comparison jumps
        return [_instruction(_JGE, starts[half][0], len(below), 0), *below, *above]
    return [_instruction(_JGE, starts[half][0], 0, 1), _instruction(_JUMP, len(below)), *below, *above]


def _loopback(numbers: dict[str, int]) -> list[bytes]:
    """Local sockets, and TCP's, which lead nowhere out of a network of one's own; of its options the old ones."""
    return [
        _instruction(_JEQ, numbers["socket"], 0, 11),
        _instruction(_LOAD, _ARG0),
        _instruction(_JEQ, AF_UNIX, 7, 0),
        _instruction(_JEQ, AF_INET, 0, 7),
        _instruction(_LOAD, _ARG1),
        _instruction(_AND, _KIND_OF_SOCKET),
        _instruction(_JEQ, SOCK_STREAM, 0, 4),
        _instruction(_LOAD, _ARG2),
        _instruction(_JEQ, 0, 1, 0),
        _instruction(_JEQ, IPPROTO_TCP, 0, 1),
        _instruction(_RET, _ALLOW),
        _instruction(_RET, _EPERM),
        _instruction(_JEQ, numbers["setsockopt"], 0, 8),
        _instruction(_LOAD, _ARG1),
        _instruction(_JEQ, SOL_SOCKET, 5, 0),
        _instruction(_JEQ, IPPROTO_TCP, 0, 2),
        _instruction(_LOAD, _ARG2),
        _instruction(_JGE, _LAST_TCP_OPTION + 1, 0, 1),
        _instruction(_RET, _EPERM),
        _instruction(_RET, _ALLOW),
        _instruction(_LOAD, _NR),  # those of all sockets: _no_strings_attached
    ]


def assemble_for_lane(
    machine: str, processes: bool, shared_bytes: int = -1, commands: bool = False, enters: bool = False
) -> bytes:
    """`shared_bytes`: of one shared anonymous mapping, at most; -1 for any. `commands`: a program that may start no
    process may become another one, under the same filters; one that may start some has TCP within its network.
    `enters`: it goes into another root before it begins, see assemble_once_entered."""
    numbers = syscalls.numbers_of(machine)
    program = _preamble(machine, numbers)
    if processes and commands:
        program += _loopback(numbers)
    program += _no_strings_attached(numbers)
    if processes:
        program += [
            _instruction(_JEQ, numbers["clone"], 0, 4),
            _instruction(_LOAD, _ARG0),
            _instruction(_JSET, CLONE_NAMESPACES, 0, 1),
            _instruction(_RET, _EPERM),
            _instruction(_RET, _ALLOW),
            # sockets within the lane
            *_demand(numbers["socket"], AF_UNIX),
        ]
    if shared_bytes >= 0:
        program += [
            _instruction(_JEQ, numbers["mmap"], 0, 9),
            _instruction(_LOAD, _ARG3),
            _instruction(_AND, MAP_SHARED | MAP_ANONYMOUS),
            _instruction(_JEQ, MAP_SHARED | MAP_ANONYMOUS, 0, 5),
            _instruction(_LOAD, _ARG1 + 4),
            _instruction(_JEQ, 0, 0, 2),
            _instruction(_LOAD, _ARG1),
            _instruction(_JGE, shared_bytes + 1, 0, 1),
            _instruction(_RET, _EPERM),
            _instruction(_RET, _ALLOW),
        ]
    more = WITH_PROCESSES if processes else {"execve"} if commands else set()
    more = more | {"chroot"} if enters else more
    program += _allow_known(numbers, set(DENIED) - FOR_THE_KEEPER - more)
    return b"".join(program)


def assemble_for_zygote(machine: str, processes: bool, own_locks: bool, own_attributes: bool) -> bytes:
    """For all that it forks. `own_locks`: no lock of theirs is seen by others anyway, else it succeeds without effect.

    `own_attributes`: they can reach the attributes of no file but theirs, else they can change none.
    """
    numbers = syscalls.numbers_of(machine)
    program = [_instruction(_LOAD, _NR)]
    without_effect = WITHOUT_EFFECT | (set() if own_locks else LOCKS)
    for name in sorted(without_effect):
        program += [_instruction(_JEQ, numbers[name], 0, 1), _instruction(_RET, _NOTHING)]
    if not own_locks:
        program += _among(numbers["fcntl"], FCNTL_LOCKS, _NOTHING, _ALLOW)
    if processes:
        program += _demand(numbers["prlimit64"], 0)  # a limit for oneself
    return b"".join([*program, *_deny(numbers, FOR_THE_KEEPER | (set() if own_attributes else ATTRIBUTES))])


def assemble(machine: str, own_pid: int) -> bytes:
    """For a program that may start no process. `own_pid` is patched in because the filter is built once and the pid is
    known only after the fork."""
    numbers = syscalls.numbers_of(machine)
    program = [
        _instruction(_LOAD, _NR),
        _instruction(_JEQ, numbers["clone"], 0, 4),
        _instruction(_LOAD, _ARG0),
        _instruction(_JSET, CLONE_THREAD, 1, 0),
        _instruction(_RET, _EPERM),
        _instruction(_RET, _ALLOW),
        # a signal or a limit for oneself only
        *_demand(numbers["kill"], own_pid),
        *_demand(numbers["tgkill"], own_pid),
        *_demand(numbers["prlimit64"], 0, own_pid),
        # to outlive the lane; to be dumped into a handler that the machine may have for that
        _instruction(_JEQ, numbers["prctl"], 0, 4),
        _instruction(_LOAD, _ARG0),
        _instruction(_JEQ, PR_SET_PDEATHSIG, 1, 0),
        _instruction(_JEQ, PR_SET_DUMPABLE, 0, 1),
        _instruction(_RET, _EPERM),
        _instruction(_RET, _ALLOW),
    ]
    return b"".join(program)


def assemble_once_entered(machine: str) -> bytes:
    """For a program that is in its root."""
    return b"".join([_instruction(_LOAD, _NR), *_deny(syscalls.numbers_of(machine), {"chroot"})])


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


class Filter:
    """What a lane loads, its zygote adds, and every program adds after its fork. Needs no_new_privs.

    All that loading takes is laid out beforehand: a program's every first touch of a page is a copy of it.
    """

    _MARK = 0x5EC0DE77

    def __init__(self, processes: bool, shared_bytes: int, commands: bool = False, enters: bool = False) -> None:
        """Confines this process as well, for good: see assemble_for_lane."""
        machine = os.uname().machine
        self._prctl = ctypes.CDLL(None, use_errno=True).prctl
        self._load(assemble_for_lane(machine, processes, shared_bytes, commands, enters))
        self._processes = processes
        self._once_entered = assemble_once_entered(machine) if enters else b""
        self._code = assemble(machine, self._MARK)
        self._memory = ctypes.create_string_buffer(self._code, len(self._code))
        self._view = memoryview(self._memory).cast("B")
        mark = struct.pack("=I", self._MARK)
        self._pids = [slice(i, i + 4) for i in range(0, len(self._code), 4) if self._code[i : i + 4] == mark]
        self._program = _Program(len(self._code) // 8, ctypes.addressof(self._memory))
        self._arguments = _arguments(libc.PR_SET_SECCOMP, libc.SECCOMP_MODE_FILTER, ctypes.addressof(self._program))

    def load_for_zygote(self, own_locks: bool, own_attributes: bool) -> None:
        """Confines the calling process as well: see assemble_for_zygote."""
        self._load(assemble_for_zygote(os.uname().machine, self._processes, own_locks, own_attributes))

    def _load(self, code: bytes) -> None:
        buffer = ctypes.create_string_buffer(code, len(code))
        program = _Program(len(code) // 8, ctypes.addressof(buffer))
        self._call(_arguments(libc.PR_SET_SECCOMP, libc.SECCOMP_MODE_FILTER, ctypes.addressof(program)))

    def load(self) -> None:
        """Where programs may start processes, there's nothing to add but for those that went into another root."""
        if self._once_entered:
            self._load(self._once_entered)
        if not self._processes:
            self._patch()
            self._call(self._arguments)

    def rehearse(self) -> None:
        """All of `load` but its effect: what Python does at the first times of a call is then done."""
        self._patch()
        self._call(_arguments(libc.PR_GET_DUMPABLE, 0, 0))

    def _patch(self) -> None:
        pid = os.getpid().to_bytes(4, sys.byteorder)
        for place in self._pids:
            self._view[place] = pid

    def _call(self, arguments: tuple[object, ...]) -> None:
        if self._prctl(*arguments) < 0:
            raise OSError(ctypes.get_errno(), "the seccomp filter was refused")


def _arguments(option: int, first: int, second: int) -> tuple[object, ...]:
    return ctypes.c_int(option), ctypes.c_ulong(first), ctypes.c_ulong(second), ctypes.c_ulong(0), ctypes.c_ulong(0)
