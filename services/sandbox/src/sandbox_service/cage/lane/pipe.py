"""Pipes out of a child."""

import mmap
import os
import select

_MADV_DONTFORK = 10
_KEPT = 64 << 10


class Pipe:
    """One way out of a child, collected up to `size` bytes at most into a mapping that no fork inherits.

    What there's no room for is taken and dropped, so that whoever writes goes on.
    """

    _waste = memoryview(bytearray(64 << 10))

    def __init__(self, size: int) -> None:
        self._map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._map.madvise(_MADV_DONTFORK)
        self._view = memoryview(self._map)
        self.size, self.used, self.reader, self.writer = size, 0, -1, -1

    def open(self, size: int = 0) -> None:
        """`size`: where it takes less than it could."""
        self.used, self.size = 0, min(size, len(self._map)) if size else len(self._map)
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(self.writer, True)

    def close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def fill(self) -> bool:
        """Takes what's there. False once there's nothing more to come."""
        room = self._view[self.used : self.size]
        try:
            count = os.readv(self.reader, [room, self._waste])
        except BlockingIOError:
            return True
        self.used = min(self.used + count, self.size)
        return count > 0

    def closed_by_all(self) -> bool:
        """Whether nobody is left who could write."""
        poll = select.poll()
        poll.register(self.reader, 0)
        return any(event & select.POLLHUP for _, event in poll.poll(0))

    def drain(self) -> None:
        """All that's there, however it was cut into packets, when nobody writes any more."""
        before = -1
        while self.used != before and self.used < self.size:
            before = self.used
            self.fill()

    def close(self) -> None:
        """And gives back the memory of a large answer; that of others is written over by the next."""
        self.close_writer()
        os.close(self.reader)
        self.reader = -1
        if self.used > _KEPT:
            self._map.madvise(mmap.MADV_DONTNEED)
        self.used = 0

    def content(self, limit: int) -> memoryview:
        return self._view[: min(self.used, limit)]
