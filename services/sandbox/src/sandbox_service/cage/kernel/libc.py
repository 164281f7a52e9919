"""The few system calls that Python 3.11 has no name for, by ctypes. Each raises OSError with its errno."""

import ctypes
import os
from collections.abc import Callable
from typing import Any

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_DUMPABLE = 1, 3, 4
PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 22, 24, 38
PR_CAP_AMBIENT, _RAISE, _CLEAR_ALL = 47, 2, 4
CAP_SETPCAP, CAP_SYS_CHROOT, CAP_SYS_ADMIN = 8, 18, 21
SECCOMP_MODE_FILTER = 2
_F_GETFL, _F_DUPFD_CLOEXEC = 3, 1030
_HIGH = 64  # above the descriptors that programs get
PIVOT_ROOT, _GETCWD = (41, 17) if os.uname().machine == "aarch64" else (155, 79)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.bcmp.restype = ctypes.c_uint  # else what is less would look like an error
_libc.prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def prctl(option: int, value: int) -> None:
    _check(_libc.prctl(option, value, 0, 0, 0), "prctl")


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def set_host_name(name: str) -> None:
    _check(_libc.sethostname(os.fsencode(name), len(name)), "sethostname")


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    _check(_libc.mount(*encoded[:3], ctypes.c_ulong(flags), encoded[3]), f"mount {target}")


def chroot(path: str) -> None:
    _check(_libc.chroot(os.fsencode(path)), "chroot")


def umount(target: str, flags: int) -> None:
    _check(_libc.umount2(os.fsencode(target), flags), f"umount {target}")


def duplicate(descriptor: int, lowest: int) -> int:
    """To the first free number from `lowest` on. By libc, as Python's `fcntl` is a library that every fork inherits."""
    return _check(_libc.fcntl(descriptor, _F_DUPFD_CLOEXEC, lowest), "fcntl")


def high(descriptor: int) -> int:
    """Moves it out of the way of those that programs get."""
    moved = duplicate(descriptor, _HIGH)
    os.close(descriptor)
    return moved


def ioctl(descriptor: int, request: int, argument: bytes) -> None:
    """`argument`: what the request reads, which writes nothing back."""
    _check(_libc.ioctl(descriptor, ctypes.c_ulong(request), argument), "ioctl")


def set_thread_stack(size: int) -> None:
    """What every thread gets from now on that doesn't ask for a stack of its own size. Else RLIMIT_STACK decides, as it
    was when this process began."""
    attributes = ctypes.create_string_buffer(64)
    _libc.pthread_attr_init(attributes)
    _libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(size))
    _libc.pthread_setattr_default_np(attributes)


def syscall(number: int, *arguments: object) -> int:
    values = [ctypes.c_long(v) if isinstance(v, int) else v for v in arguments]
    return _check(_libc.syscall(ctypes.c_long(number), *values), f"syscall {number}")


class Call:
    """A call with all that it takes laid out beforehand: what a program or the zygote writes to is copied."""

    def __init__(self, function: Callable[..., int], *arguments: object) -> None:
        self._function, self._arguments = function, arguments

    def __call__(self) -> int:
        """Raises OSError."""
        result = self.attempt()
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        return result

    def attempt(self) -> int:
        """What the call returns, or the negative number of its error."""
        result = self._function(*self._arguments)
        return -ctypes.get_errno() if result < 0 else result


def prepared_syscall(number: int, *arguments: object) -> Call:
    return Call(_libc.syscall, *[ctypes.c_long(v) if isinstance(v, int) else v for v in (number, *arguments)])


def prepared_mount(kind: str, target: str, flags: int, options: str) -> tuple[Call, Call]:
    """To mount it, and to take it away."""
    name, place = os.fsencode(kind), os.fsencode(target)
    mount = Call(_libc.mount, name, place, name, ctypes.c_ulong(flags), os.fsencode(options))
    return mount, Call(_libc.umount2, place, ctypes.c_int(MNT_DETACH))


def prepared_flags(descriptor: int) -> Call:
    return Call(_libc.fcntl, ctypes.c_int(descriptor), ctypes.c_int(_F_GETFL), ctypes.c_int(0))


def prepared_kill(pid: int, signal: int) -> Call:
    return Call(_libc.kill, ctypes.c_int(pid), ctypes.c_int(signal))


def prepared_looks(folder: object, timer: object, signals: object, descriptors: ctypes.Array[Any]) -> list[Call]:
    """That write to these what this process has for a current folder, a real-time timer, blocked signals; and what
    poll(2) finds of its descriptors."""
    size, count = ctypes.c_size_t(ctypes.sizeof(folder)), ctypes.c_ulong(len(descriptors))  # type: ignore[arg-type]
    return [
        Call(_libc.syscall, ctypes.c_long(_GETCWD), folder, size),
        Call(_libc.getitimer, ctypes.c_int(0), timer),
        Call(_libc.sigprocmask, ctypes.c_int(0), None, signals),
        Call(_libc.poll, descriptors, count, ctypes.c_int(0)),
    ]


def prepared_comparison(one: ctypes.Array[Any], other: ctypes.Array[Any]) -> Call:
    """0 as its result: they are the same."""
    return Call(_libc.bcmp, one, other, ctypes.c_size_t(ctypes.sizeof(one)))


def prepared_drop() -> Call:
    """Of all capabilities."""
    return Call(_libc.capset, _CAPABILITIES, (ctypes.c_uint32 * 6)())


NOTHING = Call(_libc.prctl, ctypes.c_int(PR_GET_DUMPABLE), *[ctypes.c_ulong(0)] * 4)
"""A call without effect, to rehearse with."""
_CAPABILITIES = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, of this thread


def set_capabilities(mask: int, inheritable: int = 0) -> None:
    """The effective and the permitted ones, and those that outlast execve if they are made ambient."""
    sets = (ctypes.c_uint32 * 6)()
    for word, shift in ((0, 0), (3, 32)):
        sets[word] = sets[word + 1] = mask >> shift & 0xFFFFFFFF
        sets[word + 2] = inheritable >> shift & 0xFFFFFFFF
    _check(_libc.capset(_CAPABILITIES, sets), "capset")


def keep_over_execve(*capabilities: int) -> None:
    """And no others: of a process that isn't root, execve takes all that are not ambient."""
    mask = sum(1 << capability for capability in capabilities)
    set_capabilities(mask, mask)
    for capability in capabilities:
        _check(_libc.prctl(PR_CAP_AMBIENT, _RAISE, capability, 0, 0), "prctl")


def empty_bounding_set() -> None:
    """And the ambient set. Needs CAP_SETPCAP, or that the set is empty or unreachable anyway."""
    _libc.prctl(PR_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    for capability in range(64):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            break
