"""The proof that a lane is as it was: what its programs have in common is looked at after each of them.

The zygote looks at what can be seen from within it alone, by calls that are laid out beforehand: each page that it
writes to is copied sooner or later. The keeper, which nobody is forked from, looks at the rest.
"""

import ctypes
import os
import resource
from typing import Any

from sandbox_service.cage.kernel import libc

_LIMITS = range(16)  # kinds, by the kernel's numbers
_SIGNALS, _TIMER, _PATH = 128, 32, 1024  # bytes, as the kernel and libc write them


class LeftBehind(Exception):
    """The lane is not as it was before its last program. It takes no other."""


class _Descriptor(ctypes.Structure):
    """Of poll(2)."""

    _fields_ = [("number", ctypes.c_int), ("wanted", ctypes.c_short), ("found", ctypes.c_short)]


class Within:
    """This process, as it is when there's no program: its folder, timer, signals, descriptors and their flags.

    Made under a limit on descriptors that is small: jail.limit_lane.
    """

    _NOT_OPEN = 0x20  # POLLNVAL

    def __init__(self) -> None:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        numbers = (_Descriptor * most)(*[_Descriptor(number) for number in range(most)])
        self._parts: dict[str, ctypes.Array[Any]] = {
            "folder": ctypes.create_string_buffer(_PATH),
            "timer": ctypes.create_string_buffer(_TIMER),
            "signals": ctypes.create_string_buffer(_SIGNALS),
            "descriptors": numbers,
        }
        self._calls = libc.prepared_looks(*self._parts.values())
        self._look()
        before = [type(part).from_buffer_copy(part) for part in self._parts.values()]
        self._differ = [libc.prepared_comparison(*pair) for pair in zip(self._parts.values(), before, strict=True)]
        self._flags = [libc.prepared_flags(each.number) for each in numbers if not each.found & self._NOT_OPEN]
        self._flags_before = self._results(self._flags)

    def _look(self) -> None:
        for call in self._calls:
            call()

    def _results(self, calls: list[libc.Call]) -> list[int]:
        return [call.attempt() for call in calls]

    def demand_unchanged(self) -> None:
        """Raises LeftBehind."""
        self._look()
        if any(differ := self._results(self._differ)):
            raise LeftBehind(", ".join(name for name, one in zip(self._parts, differ, strict=True) if one))
        # they are those of an open file, which several processes may share; files of the root can't change
        if (flags := self._results(self._flags)) != self._flags_before:
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
