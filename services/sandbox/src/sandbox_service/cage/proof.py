"""The proof that a lane is as it was: what its programs have in common is looked at after each of them.

The zygote looks at what can be seen from within it alone, by calls that are laid out beforehand: each page that it
writes to is copied sooner or later. The keeper, which nobody is forked from, looks at the rest.
"""

import ctypes
import os
import resource

from kernel import libc

_LIMITS = range(16)  # kinds, by the kernel's numbers
_SIGNALS, _TIMER, _PATH = 128, 32, 1024  # bytes, as the kernel and libc write them


class LeftBehind(Exception):
    """The lane is not as it was before its last program. It takes no other."""


class _Descriptor(ctypes.Structure):
    """Of poll(2)."""

    _fields_ = [("number", ctypes.c_int), ("wanted", ctypes.c_short), ("found", ctypes.c_short)]


class Within:
    """This process, as it is when there's no program: its folder, timer, signals, descriptors and their flags."""

    def __init__(self) -> None:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        numbers = (_Descriptor * most)(*[_Descriptor(number) for number in range(most)])
        self._parts = {
            "folder": ctypes.create_string_buffer(_PATH),
            "timer": ctypes.create_string_buffer(_TIMER),
            "signals": ctypes.create_string_buffer(_SIGNALS),
            "descriptors": numbers,
        }
        self._calls = libc.prepared_looks(*self._parts.values())
        self._look()
        not_open = 0x20  # POLLNVAL
        self._open = [libc.prepared_flags(each.number) for each in numbers if not each.found & not_open]
        self._before, self._flags_before = self._seen(), self._flags()

    def _look(self) -> None:
        for call in self._calls:
            call()

    def _seen(self) -> list[bytes]:
        return [bytes(part) for part in self._parts.values()]

    def _flags(self) -> list[int]:
        """They are those of an open file, which several processes may share. Files of the root can't change."""
        return [flags() for flags in self._open]

    def demand_unchanged(self) -> None:
        """Raises LeftBehind."""
        self._look()
        now = self._seen()
        if now != self._before:
            changed = [name for name, old, new in zip(self._parts, self._before, now, strict=True) if old != new]
            raise LeftBehind(", ".join(changed))
        if (flags := self._flags()) != self._flags_before:
            raise LeftBehind(f"flags of descriptors: {flags}")


class Outside:
    """What another process can see of the zygote: priority, limits, and the mounts that both have."""

    def __init__(self, zygote: int, proc: int) -> None:
        """`proc`: a descriptor of a /proc that shows this process, or -1 where its mounts are the machine's."""
        self._zygote = zygote
        self._mounts = os.open("self/mountinfo", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc) if proc >= 0 else -1
        self._before = self._look()

    def _look(self) -> list[object]:
        found: list[object] = [os.getpriority(os.PRIO_PROCESS, self._zygote)]
        found += [resource.prlimit(self._zygote, limit) for limit in _LIMITS]
        if self._mounts >= 0:
            os.lseek(self._mounts, 0, os.SEEK_SET)
            while some := os.read(self._mounts, 1 << 16):
                found.append(some)
        return found

    def demand_unchanged(self) -> None:
        """Raises LeftBehind."""
        if (now := self._look()) != self._before:
            raise LeftBehind(str([what for what in now if what not in self._before]))
