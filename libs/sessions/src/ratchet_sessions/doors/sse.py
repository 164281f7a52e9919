"""Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ratchet_kit.errors import Cancelled
from ratchet_kit.http_server import while_connected

T = TypeVar("T")

# A comment line in this interval, when there is no event, keeps proxies from closing the connection.
PING_SECONDS = 15.0
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def event(data: Mapping[str, Any] | str, name: str | None = None) -> str:
    text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
    return (f"event: {name}\n" if name else "") + f"data: {text}\n\n"


async def started(receive: Receive, items: AsyncGenerator[T]) -> AsyncGenerator[T]:
    """The same items, the first already there: what goes wrong before it is still an ordinary error response.

    `receive`: of the request, whose body has been read. The first may take long: raises Cancelled when the caller has
    gone by then.
    """
    first = await while_connected(receive, _first(items))

    async def all_items() -> AsyncGenerator[T]:
        async with aclosing(items):
            if first is not None:
                yield first
                async for item in items:
                    yield item

    return all_items()


async def _first(items: AsyncGenerator[T]) -> T | None:
    return await anext(items, None)


class EventStream(Response):
    """Sends events as they come, and a comment where none came for a while. The events end when the caller leaves.

    One task for all of a stream: a task for each event would cost more than the event.
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[str], headers: Mapping[str, str] | None = None) -> None:
        self._events = events
        self._sent = 0.0
        self.status_code = 200
        self.background = None
        self.init_headers({**_HEADERS, **(headers or {})})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await while_connected(receive, self._send_all(send))
        except Cancelled:
            pass  # nobody is left to answer

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        pinging = asyncio.create_task(self._ping(send))
        try:
            async with aclosing(self._events) as events:
                async for one in events:
                    await self._send(send, one)
        finally:
            pinging.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _ping(self, send: Send) -> None:
        self._sent = time.monotonic()
        while True:
            silent = time.monotonic() - self._sent
            if silent >= PING_SECONDS:
                await self._send(send, ": ping\n\n")
            else:
                await asyncio.sleep(PING_SECONDS - silent)

    async def _send(self, send: Send, text: str) -> None:
        await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
        self._sent = time.monotonic()
