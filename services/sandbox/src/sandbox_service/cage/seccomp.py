"""A seccomp-BPF filter, assembled here so that no library is needed.

It takes away what a single-process program never needs: new processes, other programs, sockets, signals to others,
tracing, mounts, namespaces, io_uring, bpf, keyrings, System V IPC, and the kinds of memory that RLIMIT_DATA doesn't
count (anonymous files, shared anonymous mappings). A denied call fails with EPERM, so the program sees an ordinary
OSError. For x86-64 and ARM64, each with its own numbers: see syscalls.py.

A second one, for lanes that have their own process and network namespaces, lets a program start processes and talk to
them, by signals and local sockets. Memory that RLIMIT_DATA doesn't count is then counted by crowd.py.
"""

import ctypes
import errno
import os
import platform
import struct

import libc
import syscalls

# The door by which a call entered the kernel: a 32-bit one has other numbers. From linux/include/uapi/linux/audit.h.
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE_THREAD = 0x00010000
CLONE_NAMESPACES = 0x7E020000
AF_UNIX = 1
X32_BIT = 0x40000000

MAP_SHARED, MAP_ANONYMOUS = 0x01, 0x20
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
IOCTL_DENIED = (0x5412, 0x8901, 0x8902)  # TIOCSTI, FIOSETOWN, SIOCSPGRP
FCNTL_DENIED = (8, 10, 15, 1024, 1026, 1031)  # F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY, F_SETPIPE_SZ

DENIED = [
    # processes and other programs
    "fork", "vfork", "execve", "execveat", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open",
    "pidfd_send_signal", "pidfd_getfd", "process_madvise", "process_mrelease", "ptrace", "process_vm_readv",
    "process_vm_writev", "kcmp", "setpriority", "sched_setparam", "sched_setscheduler", "sched_setaffinity",
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
    "msgctl", "mq_open", "memfd_create", "memfd_secret",
]  # fmt: skip

# What a program needs that may start processes. Its sockets are local ones alone: see _assemble_with_processes.
WITH_PROCESSES = {
    "fork", "vfork", "execve", "execveat", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open",
    "pidfd_send_signal", "socket", "connect", "accept", "bind", "listen", "accept4",
}  # fmt: skip

_LOAD, _AND, _JEQ, _JGE, _JSET, _RET = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _EPERM, _ENOSYS, _KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS, 0x80000000
_NR, _ARCH, _ARG0, _ARG1, _ARG3 = 0, 4, 16, 24, 40


def supported() -> bool:
    return platform.machine() in AUDIT_ARCH and struct.calcsize("P") == 8


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
    """Nobody types into a terminal for others, has the kernel signal others when a descriptor is ready (F_SETOWN asks
    only for the same uid), or changes the pipes that the next program gets."""
    return [
        _instruction(_JEQ, numbers["fcntl"], 0, 3 + len(FCNTL_DENIED)),
        _instruction(_LOAD, _ARG1),
        *(_instruction(_JEQ, command, len(FCNTL_DENIED) - index, 0) for index, command in enumerate(FCNTL_DENIED)),
        _instruction(_RET, _ALLOW),
        _instruction(_RET, _EPERM),
        _instruction(_JEQ, numbers["ioctl"], 0, 3 + len(IOCTL_DENIED)),
        _instruction(_LOAD, _ARG1),
        *(_instruction(_JEQ, request, len(IOCTL_DENIED) - index, 0) for index, request in enumerate(IOCTL_DENIED)),
        _instruction(_RET, _ALLOW),
        _instruction(_RET, _EPERM),
    ]


def _deny(numbers: list[int]) -> list[bytes]:
    """The end of a filter."""
    steps = [_instruction(_JEQ, number, len(numbers) - index, 0) for index, number in enumerate(numbers)]
    return [*steps, _instruction(_RET, _ALLOW), _instruction(_RET, _EPERM)]


def _numbers_denied(numbers: dict[str, int], allowed: set[str]) -> list[int]:
    return sorted(numbers[name] for name in DENIED if name in numbers and name not in allowed)


def assemble_with_processes(machine: str) -> bytes:
    numbers = syscalls.numbers_of(machine)
    program = [
        *_preamble(machine, numbers),
        _instruction(_JEQ, numbers["clone"], 0, 4),
        _instruction(_LOAD, _ARG0),
        _instruction(_JSET, CLONE_NAMESPACES, 0, 1),
        _instruction(_RET, _EPERM),
        _instruction(_RET, _ALLOW),
    ]
    for name, only in (("prlimit64", 0), ("socket", AF_UNIX)):
        # limits for oneself, sockets within the lane
        program += [
            _instruction(_JEQ, numbers[name], 0, 4),
            _instruction(_LOAD, _ARG0),
            _instruction(_JEQ, only, 1, 0),
            _instruction(_RET, _EPERM),
            _instruction(_RET, _ALLOW),
        ]
    program += _no_strings_attached(numbers)
    program += _deny(_numbers_denied(numbers, WITH_PROCESSES))
    return b"".join(program)


def assemble(machine: str, own_pid: int) -> bytes:
    """`own_pid` is patched in because the filter is built once and the pid is known only after the fork."""
    numbers = syscalls.numbers_of(machine)
    program = [
        *_preamble(machine, numbers),
        _instruction(_JEQ, numbers["clone"], 0, 4),
        _instruction(_LOAD, _ARG0),
        _instruction(_JSET, CLONE_THREAD, 1, 0),
        _instruction(_RET, _EPERM),
        _instruction(_RET, _ALLOW),
    ]
    for name, also_zero in (("kill", False), ("tgkill", False), ("prlimit64", True)):
        # a signal or a limit for oneself only
        program += [
            _instruction(_JEQ, numbers[name], 0, 5 if also_zero else 4),
            _instruction(_LOAD, _ARG0),
            *([_instruction(_JEQ, 0, 2, 0)] if also_zero else []),
            _instruction(_JEQ, own_pid, 1, 0),
            _instruction(_RET, _EPERM),
            _instruction(_RET, _ALLOW),
        ]
    program += [
        # to outlive the zygote; to be dumped into a handler that the machine may have for that
        _instruction(_JEQ, numbers["prctl"], 0, 5),
        _instruction(_LOAD, _ARG0),
        _instruction(_JEQ, PR_SET_PDEATHSIG, 1, 0),
        _instruction(_JEQ, PR_SET_DUMPABLE, 0, 1),
        _instruction(_RET, _EPERM),
        _instruction(_RET, _ALLOW),
        _instruction(_JEQ, numbers["mmap"], 0, 5),
        _instruction(_LOAD, _ARG3),
        _instruction(_AND, MAP_SHARED | MAP_ANONYMOUS),
        _instruction(_JEQ, MAP_SHARED | MAP_ANONYMOUS, 0, 1),
        _instruction(_RET, _EPERM),
        _instruction(_RET, _ALLOW),
        *_no_strings_attached(numbers),
        *_deny(_numbers_denied(numbers, set())),
    ]
    return b"".join(program)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


class Filter:
    """Built once in the zygote, loaded by every program after its fork. Needs no_new_privs.

    All that loading takes is laid out beforehand: a program's every first touch of a page is a copy of it.
    """

    _MARK = 0x5EC0DE77

    def __init__(self, processes: bool = False) -> None:
        machine = platform.machine()
        code = assemble_with_processes(machine) if processes else assemble(machine, self._MARK)
        buffer = ctypes.create_string_buffer(code, len(code))
        self._words = (ctypes.c_uint32 * (len(code) // 4)).from_buffer(buffer)
        self._pids = [place for place, word in enumerate(self._words) if word == self._MARK]
        self._program = _Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
        self._arguments = (libc.PR_SET_SECCOMP, libc.SECCOMP_MODE_FILTER, ctypes.byref(self._program), 0, 0)
        self._prctl = ctypes.CDLL(None, use_errno=True).prctl
        self._prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong)

    def load(self) -> None:
        pid = os.getpid()
        for place in self._pids:
            self._words[place] = pid
        if self._prctl(*self._arguments) != 0:
            raise OSError(ctypes.get_errno(), "the seccomp filter was refused")
