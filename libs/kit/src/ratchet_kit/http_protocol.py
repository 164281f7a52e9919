"""HTTP/1.1 as uvicorn reads it, with bounds on what a stranger may send, and on how long one may hold a connection.

uvicorn has none of these with httptools: a head without end is kept in memory; a request that never comes whole, and an
answer that nobody takes, keep their connections for good.
"""

from asyncio import AbstractEventLoop, BaseTransport, TimerHandle
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 << 10
"""Of a request's line and headers. Also of what comes beside the bytes of its body: trailers, extensions of chunks."""
HEAD_SECONDS = 20.0
"""From the first byte of a head, or the connection, to the head's end."""
BODY_SECONDS = 300.0
"""From the end of a head to the end of its body, while we read it."""
REST_SECONDS = 5.0
"""From the end of an answer to the end of its request, whose rest is read and dropped. Clients that send first and read
then get an answer that came before their body was read, such as 401."""
TAKE_SECONDS = 75.0
"""How long a client may take nothing of an answer that waits for it."""

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class _Timer:
    """Calls `end` some seconds after its last start, unless it is stopped before."""

    def __init__(self, loop: AbstractEventLoop, end: Callable[[], None]) -> None:
        self._loop = loop
        self._end = end
        self._handle: TimerHandle | None = None

    @property
    def runs(self) -> bool:
        return self._handle is not None

    def start(self, seconds: float) -> None:
        self.stop()
        self._handle = self._loop.call_later(seconds, self._over)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _over(self) -> None:
        self._handle = None
        self._end()


class BoundedProtocol(HttpToolsProtocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._beside_body = 0
        self._in_message = False
        self._in_head = False
        self._arriving = _Timer(self.loop, self._late)
        self._leaving = _Timer(self.loop, lambda: self.transport.abort())

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self._arriving.start(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._arriving.stop()
        self._leaving.stop()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._leaving.start(TAKE_SECONDS)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._leaving.stop()

    def data_received(self, data: bytes) -> None:
        self._beside_body += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._beside_body > MAX_HEAD_BYTES:
            if self._in_head:
                self.transport.write(_TOO_LARGE)
            self.transport.close()
        elif self._in_head and not self._arriving.runs:
            self._arriving.start(HEAD_SECONDS)

    def on_message_begin(self) -> None:
        self._in_message = self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._beside_body = 0
        self._arriving.start(BODY_SECONDS)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._beside_body = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_message = False
        self._beside_body = 0
        self._arriving.stop()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # The cycle is that of the newest request: where that one has its answer, only its rest can still come.
        if self._in_message and self.cycle.response_complete and not self.transport.is_closing():
            self._arriving.start(REST_SECONDS)

    def _late(self) -> None:
        if self.flow.read_paused and not self.cycle.response_complete:
            self._arriving.start(BODY_SECONDS)  # it is we who read nothing
        else:
            self.transport.close()
