"""The token of the services on a call: what both ends of their doors agree on."""

from collections.abc import Callable
from typing import Any, NamedTuple

import grpc

TOKEN_HEADER = "x-ratchet-service-token"
"""The key of a call's metadata."""


class _Details(NamedTuple):
    method: str
    timeout: float | None
    metadata: Any
    credentials: Any
    wait_for_ready: bool | None
    compression: Any


class _WithToken(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamUnaryClientInterceptor,
    grpc.StreamStreamClientInterceptor,
):
    def __init__(self, token: str) -> None:
        self._token = token

    def _call(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        changed = _Details(
            details.method,
            details.timeout,
            [*(details.metadata or ()), (TOKEN_HEADER, self._token)],
            details.credentials,
            getattr(details, "wait_for_ready", None),
            getattr(details, "compression", None),
        )
        return continuation(changed, request)

    intercept_unary_unary = intercept_unary_stream = _call  # type: ignore[assignment]
    intercept_stream_unary = intercept_stream_stream = _call  # type: ignore[assignment]


def with_token(channel: grpc.Channel, token: str) -> grpc.Channel:
    """A blocking channel whose calls carry the token; what is closed stays the one that was given."""
    return grpc.intercept_channel(channel, _WithToken(token))
