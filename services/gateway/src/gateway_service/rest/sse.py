"""Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

from fastapi.responses import StreamingResponse

T = TypeVar("T")

# A comment line in this interval, when there is no event, keeps proxies from closing the connection.
PING_SECONDS = 15.0
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def event(data: Mapping[str, Any] | str, name: str | None = None) -> str:
    text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
    return (f"event: {name}\n" if name else "") + f"data: {text}\n\n"


def response(events: AsyncIterator[str], headers: Mapping[str, str] | None = None) -> StreamingResponse:
    return StreamingResponse(events, media_type="text/event-stream", headers={**_HEADERS, **(headers or {})})


async def started(items: AsyncGenerator[T]) -> AsyncGenerator[T]:
    """The same items, the first already there: what goes wrong before it is still an ordinary error response."""
    first = await anext(items, None)

    async def all_items() -> AsyncGenerator[T]:
        async with aclosing(items):
            if first is not None:
                yield first
                async for item in items:
                    yield item

    return all_items()


async def with_pings(events: AsyncGenerator[str]) -> AsyncIterator[str]:
    async with aclosing(events):
        waiting: asyncio.Task[str | None] | None = None
        try:
            while True:
                waiting = waiting or asyncio.ensure_future(_next(events))
                done, _ = await asyncio.wait({waiting}, timeout=PING_SECONDS)
                if not done:
                    yield ": ping\n\n"
                    continue
                item, waiting = waiting.result(), None
                if item is None:
                    return
                yield item
        finally:
            if waiting is not None:
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)


async def _next(events: AsyncIterator[str]) -> str | None:
    return await anext(events, None)
