"""HTTP/1.1 as uvicorn speaks it, with bounds on what a stranger may send before anybody has looked at it, and on how
long who neither sends nor takes anything keeps a connection.

uvicorn has none of these with httptools: a head without end is kept in memory, and a request that never comes whole, or
an answer that nobody reads, keeps its connection. And it loses the body of a request that offers another protocol, as
each of Java's client offers HTTP/2.
"""

from asyncio import BaseTransport, TimerHandle
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

MAX_HEAD_BYTES = 64 << 10
"""Of a request's line and headers. Also of what comes beside the bytes of its body: trailers, extensions of chunks."""
HEAD_SECONDS = 20.0
"""From the first byte of a head, or the connection, to the head's end."""
BODY_SECONDS = 300.0
"""From the end of a head to that of its body, while it is being read."""
STALL_SECONDS = 75.0
"""In which a client takes something of the answer that waits for it."""
REST_SECONDS = 5.0
"""From the end of an answer to the end of its request, whose rest is read and dropped. Clients that send first and read
then get an answer that came before their body was read, such as 401."""

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


_UPGRADE = b"upgrade"


class _Parser(httptools.HttpRequestParser):
    """Ends a request at its head where that offers another protocol. Nobody takes an offer here: the request is read
    again without one, as HTTP/1.1 (RFC 9110, section 7.8)."""

    def __init__(self, protocol: "BoundedProtocol") -> None:
        super().__init__(protocol)
        self._protocol = protocol

    def feed_data(self, data: Any) -> None:
        try:
            super().feed_data(data)
        except httptools.HttpParserUpgrade as error:
            if not self.should_upgrade() or not self._protocol.has_offer:  # CONNECT
                raise
            self._protocol.read_again(self, data[error.args[0] :])


class BoundedProtocol(HttpToolsProtocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.parser = _Parser(self)
        self._beside_body = 0
        self._in_message = False
        self._in_head = False
        self._timer: TimerHandle | None = None
        self._stalled: TimerHandle | None = None
        self._cycles: list[RequestResponseCycle] = []
        """Of requests without their whole answer."""

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self._close_in(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._go_on()
        self._flows()
        # uvicorn tells the newest alone: an earlier one would go on, and write to what is closed.
        for cycle in self._cycles:
            cycle.disconnected = not cycle.response_complete
            cycle.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._beside_body += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._beside_body > MAX_HEAD_BYTES:
            if self._in_head:
                self.transport.write(_TOO_LARGE)
            self.transport.close()
        elif self._in_head and self._timer is None:
            self._close_in(HEAD_SECONDS)

    @property
    def has_offer(self) -> bool:
        return any(name == _UPGRADE for name, _ in self.headers)

    def _should_upgrade(self) -> bool:
        """Read with an offer, a request is not passed on."""
        return self.has_offer

    def read_again(self, parser: _Parser, rest: bytes) -> None:
        """`rest`: the bytes that came after the head."""
        line = b" ".join((parser.get_method(), self.url, b"HTTP/" + parser.get_http_version().encode()))
        fields = [name + b": " + value for name, value in self.headers if name != _UPGRADE]
        self.parser = _Parser(self)
        self.parser.feed_data(b"\r\n".join((line, *fields, b"", b"")))
        self.parser.feed_data(rest)

    def on_message_begin(self) -> None:
        self._in_message = self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._beside_body = 0
        self._wait_for_body()
        super().on_headers_complete()
        if self.cycle is not None and self.cycle not in self._cycles:
            self._cycles = [cycle for cycle in self._cycles if not cycle.response_complete] + [self.cycle]

    def on_body(self, body: bytes) -> None:
        self._beside_body = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_message = False
        self._beside_body = 0
        self._go_on()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # The cycle is that of the newest request: where that one has its answer, only its rest can still come.
        if self._in_message and self.cycle.response_complete and not self.transport.is_closing():
            self._close_in(REST_SECONDS)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._flows()
        self._stalled = self.loop.call_later(STALL_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._flows()

    def _flows(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _wait_for_body(self) -> None:
        self._go_on()
        self._timer = self.loop.call_later(BODY_SECONDS, self._body_is_late)

    def _body_is_late(self) -> None:
        if self.flow.read_paused:  # it is we who read nothing
            self._wait_for_body()
        else:
            self.transport.abort()

    def _close_in(self, seconds: float) -> None:
        self._go_on()
        self._timer = self.loop.call_later(seconds, self.transport.close)

    def _go_on(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
