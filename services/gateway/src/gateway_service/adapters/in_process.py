"""The gateway's own HTTP API for a client in another thread of this process: no port, and no credential."""

import asyncio
import queue
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
from starlette.types import ASGIApp, Message

from gateway_service.domain.keys.key import ApiKey
from gateway_service.rest.door import INSIDER

URL = "http://gateway"


class Closed(Exception):
    """Whoever asked has left."""


@dataclass(frozen=True, slots=True)
class _Start:
    status: int
    headers: list[tuple[bytes, bytes]]


_Pieces = queue.SimpleQueue[_Start | bytes | Exception | None]


class InProcess(httpx.BaseTransport):
    """Calls the application in its event loop, as the holder of a key. Once closed, calls raise Closed, and so do those
    under way."""

    def __init__(self, app: ASGIApp, key: Callable[[], Awaitable[ApiKey]], request_id: str) -> None:
        """Made in the event loop. `app` has the door, which takes a key at its scope's INSIDER. `key` is asked at
        each call; what it raises is raised to the client. `request_id`: of all calls, for the audit log."""
        self._app = app
        self._key = key
        self._request_id = request_id
        self._loop = asyncio.get_running_loop()
        self._calls: set[Any] = set()
        self._closed = False

    def close(self) -> None:
        self._closed = True
        for call in list(self._calls):
            call.cancel()

    def check_open(self) -> None:
        """Raises Closed."""
        if self._closed:
            raise Closed

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.check_open()
        pieces = _Pieces()
        call = asyncio.run_coroutine_threadsafe(self._answer(request, request.read(), pieces), self._loop)
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        start = pieces.get()
        if isinstance(start, Exception):
            raise start
        if not isinstance(start, _Start):
            raise Closed
        return httpx.Response(start.status, headers=start.headers, stream=_Body(pieces, call.cancel))

    async def _answer(self, request: httpx.Request, body: bytes, pieces: _Pieces) -> None:
        sent = False

        async def receive() -> Message:
            nonlocal sent
            if sent:
                await asyncio.Event().wait()  # the caller never leaves before it is cancelled
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                pieces.put(_Start(message["status"], list(message.get("headers", []))))
            elif message.get("body"):
                pieces.put(message["body"])

        try:
            await self._app(self._scope(request) | {INSIDER: await self._key()}, receive, send)
        except Exception as error:  # noqa: BLE001  it is the client's
            pieces.put(error)
        finally:
            pieces.put(None)

    def _scope(self, request: httpx.Request) -> dict[str, Any]:
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "method": request.method,
            "path": request.url.path,
            "raw_path": request.url.raw_path.partition(b"?")[0],
            "query_string": request.url.query,
            "root_path": "",
            "headers": [
                *((name.lower(), value) for name, value in request.headers.raw),
                (b"x-request-id", self._request_id.encode()),
            ],
            "server": ("gateway", 80),
            "client": ("127.0.0.1", 0),
        }


class _Body(httpx.SyncByteStream):
    def __init__(self, pieces: _Pieces, close: Callable[[], object]) -> None:
        self._pieces = pieces
        self._close = close

    def __iter__(self) -> Iterator[bytes]:
        while (piece := self._pieces.get()) is not None:
            if isinstance(piece, Exception):
                raise piece
            assert isinstance(piece, bytes)
            yield piece

    def close(self) -> None:
        self._close()
