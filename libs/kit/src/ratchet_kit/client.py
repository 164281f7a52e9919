"""Channels to other services: retries, deadlines, keepalive, request ids and traces, the same for every client."""

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Self

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ratchet_kit import addresses, logs, service_auth, traces
from ratchet_kit.errors import Unavailable
from ratchet_protos.access import TOKEN_HEADER

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
METADATA_OF = {
    "request_id": "x-request-id",
    "run_id": "x-run-id",
    "actor": "x-ratchet-actor",
    "project": "x-ratchet-project",
}
"""Ids that follow a request from service to service: their names in the log and in the metadata."""

# gRPC makes at most five attempts, and spreads each wait between 0.8 and 1.2 of what is said here: about 3 s in all.
# Where a name has several addresses, calls go to them in turn, or all to one of them.
_IN_TURN: dict[str, Any] = {"round_robin": {}}
_TO_ONE: dict[str, Any] = {"pick_first": {"shuffleAddressList": True}}
_SERVICE_CONFIG: dict[str, Any] = {
    "methodConfig": [
        {
            "name": [{}],
            "retryPolicy": {
                "maxAttempts": 5,
                "initialBackoff": "0.2s",
                "maxBackoff": "3s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ],
}
_OPTIONS = [
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # A service that was restarted is found again within seconds; the default backs off to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
]


def channel(
    target: str,
    *,
    timeout: timedelta = timedelta(seconds=30),
    stream_timeout: timedelta = timedelta(hours=1),
    retries: bool = True,
    to_one: bool = False,
) -> grpc.aio.Channel:
    """A channel to `target` (host:port). Close it, or use it in `async with`. Calls go in turn to all the addresses
    that a name has; `to_one`: to one of them, chosen by chance, as long as it answers.

    With `retries`, calls that fail with UNAVAILABLE before a reply are sent again, up to four times. A call made
    without a timeout gets `timeout`, or `stream_timeout` where the reply is a stream. Each carries the services' token,
    and goes over TLS where that is set: see `access`, which raises FailedPrecondition. Errors are `grpc.RpcError`;
    within `grpc_errors.rpc_errors()` they are those of `ratchet_kit.errors`.
    """
    config = _SERVICE_CONFIG | {"loadBalancingConfig": [_TO_ONE if to_one else _IN_TURN]}
    options = [*_OPTIONS, ("grpc.service_config", json.dumps(config)), ("grpc.enable_retries", int(retries))]
    return _Channel(partial(_open, target, options), _Defaults(timeout, stream_timeout))


def _open(
    target: str, options: Sequence[tuple[str, Any]], certificates: service_auth.Certificates | None
) -> grpc.aio.Channel:
    interceptors = traces.client_interceptors()
    if certificates is None:
        return grpc.aio.insecure_channel(target, options=options, interceptors=interceptors)
    named = [*options, ("grpc.ssl_target_name_override", service_auth.TLS_NAME)]
    credentials = service_auth.channel_credentials(certificates)
    return grpc.aio.secure_channel(target, credentials, options=named, interceptors=interceptors)


async def wait_healthy(target: str, timeout: timedelta = timedelta(seconds=60)) -> None:
    """Returns when the service at `target` says SERVING.

    Raises:
        Unavailable: it did not within `timeout`; the text has its last answer.
    """
    last, certificates = "no answer yet", service_auth.certificates()
    try:
        async with asyncio.timeout(timeout.total_seconds()), _open(target, _OPTIONS[-3:], certificates) as door:
            stub = health_pb2_grpc.HealthStub(door)
            while True:
                try:
                    reply = await stub.Check(health_pb2.HealthCheckRequest(), timeout=2)
                    if reply.status == health_pb2.HealthCheckResponse.SERVING:
                        return
                    last = health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status)
                except grpc.aio.AioRpcError as error:
                    last = f"{error.code().name}: {error.details()}"
                await asyncio.sleep(0.1)
    except TimeoutError as error:
        raise Unavailable(f"{target} was not healthy within {timeout.total_seconds():g} s ({last})") from error


class _Defaults:
    """Fills in what a call was made without: its deadline, the token, the ids of the request that it is part of."""

    def __init__(self, timeout: timedelta, stream_timeout: timedelta) -> None:
        self._timeout = timeout.total_seconds()
        self._stream_timeout = stream_timeout.total_seconds()
        self._token = service_auth.Fresh(service_auth.token)

    def filled(self, call: Any, stream: bool) -> Callable[..., Any]:
        """The same multi-callable, with what is missing filled in."""
        default = self._stream_timeout if stream else self._timeout

        def make(
            request: Any = None, *, timeout: float | None = None, metadata: Iterable[Any] | None = None, **options: Any
        ) -> Any:
            return call(
                request, timeout=default if timeout is None else timeout, metadata=self._all(metadata), **options
            )

        return make

    def _all(self, metadata: Iterable[Any] | None) -> list[tuple[str, Any]]:
        given = list(metadata or ())
        sent = {key for key, _ in given}
        if TOKEN_HEADER not in sent:
            given.append((TOKEN_HEADER, self._token()))
        bound = logs.context()
        return given + [
            (key, str(bound[name])) for name, key in METADATA_OF.items() if bound.get(name) and key not in sent
        ]


class _Channel(grpc.aio.Channel):
    """A channel whose calls have defaults. No interceptors: each of grpc.aio's costs a call a task and 0.1 ms.

    A channel of gRPC keeps its certificates and its addresses: when others lie in their files, or names are to be
    looked up again, calls go over a new one. The old one stays open for the calls that are under way.
    """

    def __init__(
        self, open: Callable[[service_auth.Certificates | None], grpc.aio.Channel], defaults: _Defaults
    ) -> None:
        self._open = open
        self._defaults = defaults
        self._certificates = service_auth.Fresh(service_auth.certificates)
        self._opened_with, self._opened_at = self._certificates(), addresses.lookups()
        self._channels = [open(self._opened_with)]

    def _present(self) -> grpc.aio.Channel:
        found = self._opened_with and self._certificates()
        if found != self._opened_with or self._opened_at != addresses.lookups():
            self._opened_with, self._opened_at = found, addresses.lookups()
            self._channels.append(self._open(found))
        return self._channels[-1]

    def _calls(self, kind: str, args: Any, options: Any) -> Callable[..., Any]:
        """A multi-callable, made anew for a new channel."""
        channel = self._present()
        made = getattr(channel, kind)(*args, **options)

        def call(*given: Any, **more: Any) -> Any:
            nonlocal channel, made
            if channel is not (present := self._present()):
                channel, made = present, getattr(present, kind)(*args, **options)
            return made(*given, **more)

        return call

    def unary_unary(self, *args: Any, **options: Any) -> Any:
        return self._defaults.filled(self._calls("unary_unary", args, options), stream=False)

    def unary_stream(self, *args: Any, **options: Any) -> Any:
        return self._defaults.filled(self._calls("unary_stream", args, options), stream=True)

    def stream_unary(self, *args: Any, **options: Any) -> Any:
        return self._defaults.filled(self._calls("stream_unary", args, options), stream=False)

    def stream_stream(self, *args: Any, **options: Any) -> Any:
        return self._defaults.filled(self._calls("stream_stream", args, options), stream=True)

    async def __aenter__(self) -> Self:
        await self._channels[-1].__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        await self.close()
        return None

    async def close(self, grace: float | None = None) -> None:
        for channel in self._channels:
            await channel.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._channels[-1].get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._channels[-1].wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._channels[-1].channel_ready()
