"""The pipes of one exec, as the service holds them: none of them blocks it, and a slow reader slows the program."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

_CHUNK = 1 << 16


class Outlet:
    """One of the streams that a program writes to. `writer` is the program's end."""

    def __init__(self, changed: asyncio.Event) -> None:
        self._changed = changed
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(self.writer, True)
        self._ready = False
        self._watch()

    def _watch(self) -> None:
        asyncio.get_running_loop().add_reader(self.reader, self._readable)

    def _readable(self) -> None:
        asyncio.get_running_loop().remove_reader(self.reader)
        self._ready = True
        self._changed.set()

    def take(self) -> bytes:
        """Returns the bytes that are there by now, if any."""
        if not self._ready:
            return b""
        self._ready = False
        data = self._read()
        if data:
            self._watch()
        return data

    def rest(self) -> bytes:
        """Returns the rest once the exec has ended: no more than the pipe holds, whoever still writes."""
        return self._read()

    def _read(self) -> bytes:
        try:
            return os.read(self.reader, _CHUNK)
        except BlockingIOError:
            return b""

    def close_writer(self) -> None:
        os.close(self.writer)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self.reader)
        os.close(self.reader)


class Inlet:
    """The standard input of a program. `reader` is the program's end."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(self.reader, True)

    def close_reader(self) -> None:
        os.close(self.reader)

    async def feed(self, chunks: AsyncIterator[bytes]) -> None:
        """Until there are no more, or the program reads no more. Closes it at the end."""
        try:
            async for chunk in chunks:
                view = memoryview(chunk)
                while view:
                    try:
                        view = view[os.write(self._writer, view) :]
                    except BlockingIOError:
                        await self._writable()
        except BrokenPipeError:
            pass
        finally:
            os.close(self._writer)

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_writer(self._writer, ready.set)
        try:
            await ready.wait()
        finally:
            with contextlib.suppress(ValueError):
                loop.remove_writer(self._writer)

    def close(self) -> None:
        os.close(self._writer)
