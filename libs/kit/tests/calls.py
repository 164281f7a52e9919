"""Services of all four kinds of RPC for tests, and calls of them."""

from datetime import timedelta

import grpc

from ratchet_kit.settings import ServiceSettings
from ratchet_testing.echo import adding, method

KINDS = ["unary_unary", "unary_stream", "stream_unary", "stream_stream"]


def quick(**changes) -> ServiceSettings:
    return ServiceSettings(port=0, grace=timedelta(seconds=2), log_level="CRITICAL", **changes)


async def call(door: grpc.aio.Channel, kind: str, **options) -> list[bytes]:
    """All replies to b"ab", or to the stream b"a", b"b"."""
    requests = iter([b"a", b"b"]) if kind.startswith("stream") else b"ab"
    rpc = method(door, kind)(requests, **options)
    return [reply async for reply in rpc] if kind.endswith("stream") else [await rpc]


class Echo:
    async def unary_unary(self, request, context):
        return request

    async def unary_stream(self, request, context):
        for byte in request:
            yield bytes([byte])

    async def stream_unary(self, requests, context):
        return b"".join([request async for request in requests])

    async def stream_stream(self, requests, context):
        async for request in requests:
            yield request


def echo(kind: str):
    return adding(**{kind: getattr(Echo(), kind)})


def failing(kind: str, error: BaseException):
    async def single(request, context):
        raise error

    async def streaming(request, context):
        yield b"first"
        raise error

    return adding(**{kind: streaming if kind.endswith("stream") else single})
