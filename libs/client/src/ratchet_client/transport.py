"""The two ways to send a call: `SyncTransport` waits for the answer, `AsyncTransport` is awaited."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx
from google.protobuf import json_format
from httpx_sse import ServerSentEvent, aconnect_sse, connect_sse

from ratchet_client.address import Address
from ratchet_client.calls import Call, Json, Listing, Request, Stream
from ratchet_client.errors import ApiError, Unreachable

T = TypeVar("T")

SILENCE_S = 90.0
"""A watch that hears nothing for so long is broken: the gateway sends a comment every 15 s."""


class SyncTransport:
    """Every method raises ApiError when the platform refuses and Unreachable when nothing answers."""

    def __init__(self, address: Address, timeout_s: float, http: httpx.BaseTransport | None = None) -> None:
        """`http`: in place of the network."""
        self.url = address.url
        self._timeout_s = timeout_s
        self._http = httpx.Client(
            base_url=address.url, headers=_headers(address), timeout=timeout_s, transport=http, trust_env=http is None
        )

    def close(self) -> None:
        self._http.close()

    def call(self, call: Call[T]) -> T:
        with _unreachable(self.url, call.request):
            response = self._http.request(**_arguments(call.request))
        return _read(call, response)

    def listing(self, listing: Listing[T]) -> Iterator[T]:
        """Every item of every page; a page is requested when the one before it is used up."""
        token = ""
        while True:
            page = self.call(listing.at(token))
            yield from page.items
            token = page.next_page_token
            if not token:
                return

    def stream(self, stream: Stream[T]) -> Iterator[T]:
        """Each item as it comes, until the stream ends."""
        timeout = httpx.Timeout(self._timeout_s, read=SILENCE_S)
        with (
            _unreachable(self.url, stream.request),
            connect_sse(self._http, **_arguments(stream.request), timeout=timeout) as source,
        ):
            if not source.response.is_success:
                source.response.read()
                raise _refusal(source.response)
            for event in source.iter_sse():
                yield _item(stream, event)

    def last(self, stream: Stream[T]) -> T:
        """The last item, when the stream has ended. Raises Unreachable when there was none."""
        return _last(list(self.stream(stream)), self.url)


class AsyncTransport:
    """As SyncTransport, for an event loop."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self.url = address.url
        self._timeout_s = timeout_s
        self._http = httpx.AsyncClient(base_url=address.url, headers=_headers(address), timeout=timeout_s)

    async def close(self) -> None:
        await self._http.aclose()

    async def call(self, call: Call[T]) -> T:
        with _unreachable(self.url, call.request):
            response = await self._http.request(**_arguments(call.request))
        return _read(call, response)

    async def listing(self, listing: Listing[T]) -> AsyncIterator[T]:
        token = ""
        while True:
            page = await self.call(listing.at(token))
            for item in page.items:
                yield item
            token = page.next_page_token
            if not token:
                return

    async def stream(self, stream: Stream[T]) -> AsyncIterator[T]:
        timeout = httpx.Timeout(self._timeout_s, read=SILENCE_S)
        with _unreachable(self.url, stream.request):
            async with aconnect_sse(self._http, **_arguments(stream.request), timeout=timeout) as source:
                if not source.response.is_success:
                    await source.response.aread()
                    raise _refusal(source.response)
                async for event in source.aiter_sse():
                    yield _item(stream, event)

    async def last(self, stream: Stream[T]) -> T:
        return _last([item async for item in self.stream(stream)], self.url)


def _headers(address: Address) -> dict[str, str]:
    return {"Authorization": f"Bearer {address.api_key}"} if address.api_key else {}


def _arguments(request: Request) -> dict[str, Any]:
    return {"method": request.verb, "url": request.path, "params": request.query or None, "json": request.body}


_NOT_SENT = httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout


@contextmanager
def _unreachable(url: str, request: Request) -> Iterator[None]:
    try:
        yield
    except httpx.TransportError as error:
        reason = str(error) or type(error).__name__
        advice = "Is the platform up? (ratchet status)"
        if request.verb != "GET" and not isinstance(error, _NOT_SENT):
            advice = "It may have been done all the same: look before you ask again."
        raise Unreachable(f"No answer from {url}: {reason}. {advice}") from error


def _read(call: Call[T], response: httpx.Response) -> T:
    if not response.is_success:
        raise _refusal(response)
    try:
        return call.read(response.json() if response.content else {})
    except (ValueError, TypeError, KeyError, json_format.ParseError) as error:
        text = f"{response.url} does not answer as a gateway of Ratchet does: {response.text[:300]}"
        raise ApiError(response.status_code, "UNKNOWN", text) from error


def _last(items: list[T], url: str) -> T:
    if not items:
        raise Unreachable(f"{url} ended the stream before its first item.")
    return items[-1]


def _item(stream: Stream[T], event: ServerSentEvent) -> T:
    body = json.loads(event.data)
    if event.event == "error":
        raise _error(500, body)
    return stream.read(body)


def _refusal(response: httpx.Response) -> ApiError:
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, Mapping):
        text = f"{response.url} answers HTTP {response.status_code}: {response.text[:300]}"
        return ApiError(response.status_code, "UNKNOWN", text)
    if response.status_code == httpx.codes.UNAUTHORIZED and "Authorization" not in response.request.headers:
        url = response.request.url
        text = f"{url.scheme}://{url.netloc.decode()} asks for an API key: set RATCHET_API_KEY (rk_...)."
        return ApiError(response.status_code, "UNAUTHENTICATED", text)
    return _error(response.status_code, body)


def _error(status: int, body: Json) -> ApiError:
    error = body.get("error")
    if not isinstance(error, Mapping):
        return ApiError(status, "UNKNOWN", f"HTTP {status}: {json.dumps(dict(body))[:300]}")
    code = error.get("code") or error.get("type") or "UNKNOWN"
    return ApiError(status, str(code), str(error.get("message", f"HTTP {status}")), error.get("violations") or ())
