"""A seccomp-BPF filter, assembled here so that no library is needed.

It takes away what a single-process program never needs: new processes, other programs, sockets, signals to others,
tracing, mounts, namespaces, io_uring, bpf, keyrings, System V IPC, and the kinds of memory that RLIMIT_DATA doesn't
count (anonymous files, shared anonymous mappings). A denied call fails with EPERM, so the program sees an ordinary
OSError. Numbers: linux/arch/x86/entry/syscalls/syscall_64.tbl.

A second one, for lanes that have their own process and network namespaces, lets a program start processes and talk to
them, by signals and local sockets. Memory that RLIMIT_DATA doesn't count is then counted by crowd.py.
"""

import ctypes
import errno
import os
import platform
import struct

import libc

AUDIT_ARCH_X86_64 = 0xC000003E
CLONE_THREAD = 0x00010000
CLONE_NAMESPACES = 0x7E020000
AF_UNIX = 1
X32_BIT = 0x40000000

MMAP, MAP_SHARED, MAP_ANONYMOUS = 9, 0x01, 0x20
PRCTL, PR_SET_PDEATHSIG = 157, 1
CLONE, CLONE3, KILL, TGKILL, PRLIMIT, IOCTL, SOCKET = 56, 435, 62, 234, 302, 16, 41
FCNTL = 72
IOCTL_DENIED = (0x5412, 0x8901, 0x8902)  # TIOCSTI, FIOSETOWN, SIOCSPGRP
FCNTL_DENIED = (8, 10, 15, 1024, 1026, 1031)  # F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY, F_SETPIPE_SZ

DENIED = {
    # processes and other programs
    "fork": 57, "vfork": 58, "execve": 59, "execveat": 322, "tkill": 200, "rt_sigqueueinfo": 129,
    "rt_tgsigqueueinfo": 297, "pidfd_open": 434, "pidfd_send_signal": 424, "pidfd_getfd": 438, "process_madvise": 440,
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "setpriority": 141,
    "sched_setparam": 142, "sched_setscheduler": 144, "sched_setaffinity": 203, "sched_setattr": 314, "ioprio_set": 251,
    "migrate_pages": 256, "move_pages": 279, "personality": 135,
    # the network
    "socket": 41, "connect": 42, "accept": 43, "bind": 49, "listen": 50, "accept4": 288,
    # mounts, namespaces, the kernel itself
    "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272, "setns": 308, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442,
    "open_by_handle_at": 304, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "io_uring_setup": 425,
    "io_uring_enter": 426, "io_uring_register": 427, "add_key": 248, "request_key": 249, "keyctl": 250, "swapon": 167,
    "swapoff": 168, "reboot": 169, "kexec_load": 246, "kexec_file_load": 320, "init_module": 175, "finit_module": 313,
    "delete_module": 176, "acct": 163, "quotactl": 179, "syslog": 103, "fanotify_init": 300, "seccomp": 317,
    # what would outlive the program or its memory limit
    "shmget": 29, "shmat": 30, "shmctl": 31, "semget": 64, "semop": 65, "semctl": 66, "msgget": 68, "msgsnd": 69,
    "msgrcv": 70, "msgctl": 71, "mq_open": 240, "memfd_create": 319, "memfd_secret": 447,
}  # fmt: skip

# What a program needs that may start processes. Its sockets are local ones alone: see _assemble_with_processes.
WITH_PROCESSES = {
    "fork", "vfork", "execve", "execveat", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open",
    "pidfd_send_signal", "socket", "connect", "accept", "bind", "listen", "accept4",
}  # fmt: skip

_LOAD, _AND, _JEQ, _JGE, _JSET, _RET = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _EPERM, _ENOSYS, _KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS, 0x80000000
_NR, _ARCH, _ARG0, _ARG1, _ARG3 = 0, 4, 16, 24, 40


def supported() -> bool:
    return platform.machine() == "x86_64" and struct.calcsize("P") == 8


def _instruction(code: int, k: int, jump_true: int = 0, jump_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, jump_true, jump_false, k)


def _preamble() -> list[bytes]:
    return [
        _instruction(_LOAD, _ARCH),
        _instruction(_JEQ, AUDIT_ARCH_X86_64, 1, 0),
        _instruction(_RET, _KILL),
        _instruction(_LOAD, _NR),
        _instruction(_JGE, X32_BIT, 0, 1),
        _instruction(_RET, _EPERM),
        # glibc falls back to clone, whose flags a filter can read
        _instruction(_JEQ, CLONE3, 0, 1),
        _instruction(_RET, _ENOSYS),
    ]


def _no_strings_attached() -> list[bytes]:
    """Nobody types into a terminal for others, has the kernel signal others when a descriptor is ready (F_SETOWN asks
    only for the same uid), or changes the pipes that the next program gets."""
    return [
        _instruction(_JEQ, FCNTL, 0, 3 + len(FCNTL_DENIED)),
        _instruction(_LOAD, _ARG1),
        *(_instruction(_JEQ, command, len(FCNTL_DENIED) - index, 0) for index, command in enumerate(FCNTL_DENIED)),
        _instruction(_RET, _ALLOW),
        _instruction(_RET, _EPERM),
        _instruction(_JEQ, IOCTL, 0, 3 + len(IOCTL_DENIED)),
        _instruction(_LOAD, _ARG1),
        *(_instruction(_JEQ, request, len(IOCTL_DENIED) - index, 0) for index, request in enumerate(IOCTL_DENIED)),
        _instruction(_RET, _ALLOW),
        _instruction(_RET, _EPERM),
    ]


def _deny(numbers: list[int]) -> list[bytes]:
    """The end of a filter."""
    steps = [_instruction(_JEQ, number, len(numbers) - index, 0) for index, number in enumerate(numbers)]
    return [*steps, _instruction(_RET, _ALLOW), _instruction(_RET, _EPERM)]


def _assemble_with_processes() -> bytes:
    program = [
        *_preamble(),
        _instruction(_JEQ, CLONE, 0, 4),
        _instruction(_LOAD, _ARG0),
        _instruction(_JSET, CLONE_NAMESPACES, 0, 1),
        _instruction(_RET, _EPERM),
        _instruction(_RET, _ALLOW),
    ]
    for number, only in ((PRLIMIT, 0), (SOCKET, AF_UNIX)):
        # limits for oneself, sockets within the lane
        program += [
            _instruction(_JEQ, number, 0, 4),
            _instruction(_LOAD, _ARG0),
            _instruction(_JEQ, only, 1, 0),
            _instruction(_RET, _EPERM),
            _instruction(_RET, _ALLOW),
        ]
    program += _no_strings_attached()
    program += _deny(sorted(number for name, number in DENIED.items() if name not in WITH_PROCESSES))
    return b"".join(program)


def _assemble(own_pid: int) -> bytes:
    """`own_pid` is patched in because the filter is built once and the pid is known only after the fork."""
    program = [
        *_preamble(),
        _instruction(_JEQ, CLONE, 0, 4),
        _instruction(_LOAD, _ARG0),
        _instruction(_JSET, CLONE_THREAD, 1, 0),
        _instruction(_RET, _EPERM),
        _instruction(_RET, _ALLOW),
    ]
    for number, also_zero in ((KILL, False), (TGKILL, False), (PRLIMIT, True)):
        # a signal or a limit for oneself only
        program += [
            _instruction(_JEQ, number, 0, 5 if also_zero else 4),
            _instruction(_LOAD, _ARG0),
            *([_instruction(_JEQ, 0, 2, 0)] if also_zero else []),
            _instruction(_JEQ, own_pid, 1, 0),
            _instruction(_RET, _EPERM),
            _instruction(_RET, _ALLOW),
        ]
    program += [
        # to outlive the zygote
        _instruction(_JEQ, PRCTL, 0, 4),
        _instruction(_LOAD, _ARG0),
        _instruction(_JEQ, PR_SET_PDEATHSIG, 0, 1),
        _instruction(_RET, _EPERM),
        _instruction(_RET, _ALLOW),
        _instruction(_JEQ, MMAP, 0, 5),
        _instruction(_LOAD, _ARG3),
        _instruction(_AND, MAP_SHARED | MAP_ANONYMOUS),
        _instruction(_JEQ, MAP_SHARED | MAP_ANONYMOUS, 0, 1),
        _instruction(_RET, _EPERM),
        _instruction(_RET, _ALLOW),
        *_no_strings_attached(),
        *_deny(sorted(DENIED.values())),
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
        code = _assemble_with_processes() if processes else _assemble(self._MARK)
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
