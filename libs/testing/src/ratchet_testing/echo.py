"""A service without protos, of all four kinds of RPC, whose handlers are given by the test. Messages are bytes."""

from collections.abc import Callable
from typing import Any

import grpc

SERVICE = "test.Echo"


def adding(parse: Callable[[bytes], Any] | None = None, **behaviours: Any) -> Callable[[grpc.aio.Server], list[str]]:
    """The function by which `serve` adds the service. `adding(unary_unary=f)` answers the method `unary_unary` by f.

    With `parse`, requests are what it makes of the bytes."""
    handlers = {
        kind: getattr(grpc, f"{kind}_rpc_method_handler")(behaviour, request_deserializer=parse)
        for kind, behaviour in behaviours.items()
    }

    def add(server: grpc.aio.Server) -> list[str]:
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        return [SERVICE]

    return add


def method(channel: grpc.aio.Channel, kind: str) -> Any:
    """The callable of the method of that kind."""
    return getattr(channel, kind)(f"/{SERVICE}/{kind}")
