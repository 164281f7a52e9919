"""How a resource is written once for both clients.

A method of a resource builds a Call, a Listing or a Stream. `unary`, `listed`, `streamed` and `last` turn it into the
method that users see, which gives it to the transport of the client: with SyncTransport it returns the result or an
iterator, with AsyncTransport an awaitable or an asynchronous iterator.
"""

import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from ratchet_client.calls import Call, Listing, Stream
from ratchet_client.transport import AsyncTransport, SyncTransport

S = TypeVar("S", bound=SyncTransport | AsyncTransport)
P = ParamSpec("P")
T = TypeVar("T")


class Resource(Generic[S]):
    """`transport` sends what the methods build."""

    def __init__(self, transport: S) -> None:
        self.transport: S = transport


def _sent(build: Callable[..., Any], send: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    @functools.wraps(build)
    def method(resource: Any, *args: Any, **kwargs: Any) -> Any:
        return send(resource.transport, build(resource, *args, **kwargs))

    return method


class _Single(Generic[P, T]):
    _method: Callable[..., Any]

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Resource[SyncTransport], owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, instance: Resource[AsyncTransport], owner: type) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else MethodType(self._method, instance)


class unary(_Single[P, T]):
    """One request, one answer."""

    def __init__(self, build: Callable[Concatenate[Any, P], Call[T]]) -> None:
        self._method = _sent(build, lambda transport, call: transport.call(call))


class last(_Single[P, T]):
    """The last item of a stream, when it has ended."""

    def __init__(self, build: Callable[Concatenate[Any, P], Stream[T]]) -> None:
        self._method = _sent(build, lambda transport, stream: transport.last(stream))


class _Iterated(Generic[P, T]):
    _method: Callable[..., Any]

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Resource[SyncTransport], owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, instance: Resource[AsyncTransport], owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else MethodType(self._method, instance)


class listed(_Iterated[P, T]):
    """All items of a list, whatever the number of its pages."""

    def __init__(self, build: Callable[Concatenate[Any, P], Listing[T]]) -> None:
        self._method = _sent(build, lambda transport, listing: transport.listing(listing))


class streamed(_Iterated[P, T]):
    """Items as they come, until the stream ends."""

    def __init__(self, build: Callable[Concatenate[Any, P], Stream[T]]) -> None:
        self.build = build
        self._method = _sent(build, lambda transport, stream: transport.stream(stream))
