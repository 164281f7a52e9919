import asyncio
from datetime import timedelta

import grpc
import pytest
import structlog
from grpc_health.v1 import health_pb2
from prometheus_client import REGISTRY

from ratchet_kit import errors, interceptors, logs, service_auth
from ratchet_kit.client import channel
from ratchet_kit.server import Deadlines
from ratchet_protos.access import TOKEN_HEADER
from ratchet_testing import serving
from ratchet_testing.echo import SERVICE, adding, method

from .calls import KINDS, call, echo, failing, quick


@pytest.mark.parametrize("kind", KINDS)
async def test_answers(kind):
    async with serving(echo(kind)) as target, channel(target) as door:
        assert b"".join(await call(door, kind)) == b"ab"


@pytest.mark.parametrize("kind", KINDS)
async def test_an_error_is_a_status(kind):
    async with serving(failing(kind, errors.NotFound("no run")), settings=quick()) as target, channel(target) as door:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await call(door, kind)
        assert raised.value.code() is grpc.StatusCode.NOT_FOUND
        assert raised.value.details() == "no run"


@pytest.mark.parametrize("kind", KINDS)
async def test_an_unknown_error_is_internal_and_its_trace_is_logged(kind):
    with structlog.testing.capture_logs() as lines:
        async with serving(failing(kind, ValueError("secret")), settings=quick()) as target, channel(target) as door:
            structlog.configure(processors=[structlog.testing.LogCapture()])
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await call(door, kind)
            captured = structlog.get_config()["processors"][0].entries
    assert raised.value.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in str(raised.value)
    assert [line for line in captured + lines if line["event"] == "call.failed" and line["exc_info"]]


async def test_a_stream_written_by_the_context():
    async def writes(request, context):
        await context.write(b"1")
        await context.write(b"2")

    async with serving(adding(unary_stream=writes)) as target, channel(target) as door:
        assert await call(door, "unary_stream") == [b"1", b"2"]


async def test_an_abort_by_the_servicer_stays_as_it_is():
    async def aborts(request, context):
        await context.abort(grpc.StatusCode.OUT_OF_RANGE, "beyond the end")

    async with serving(adding(unary_unary=aborts)) as target, channel(target) as door:
        with pytest.raises(grpc.aio.AioRpcError, match="beyond the end"):
            await call(door, "unary_unary")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_call_without_a_deadline_gets_one(kind):
    async def single(request, context):
        await asyncio.sleep(60)

    async def streaming(request, context):
        yield b"first"
        await asyncio.sleep(60)

    short = timedelta(seconds=0.1)
    add = adding(**{kind: streaming if kind.endswith("stream") else single})
    async with (
        serving(add, settings=quick(), deadlines=Deadlines(short, short)) as target,
        grpc.aio.insecure_channel(target) as bare,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await call(bare, kind, metadata=[(TOKEN_HEADER, service_auth.token())])
        assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


@pytest.mark.parametrize("kind", KINDS)
async def test_what_requests_hold_is_bounded_in_bytes(kind):
    inside, leave = asyncio.Event(), asyncio.Event()

    async def single(request, context):
        await inside_of(request)
        return b""

    async def streaming(request, context):
        await inside_of(request)
        yield b""

    async def inside_of(request):
        if kind.startswith("stream"):
            await anext(request)
        inside.set()
        await leave.wait()

    def send(door, size):
        rpc = method(door, kind)(iter([bytes(size)]) if kind.startswith("stream") else bytes(size), timeout=20)
        return asyncio.ensure_future(rpc.read() if kind.endswith("stream") else rpc)

    add = adding(**{kind: streaming if kind.endswith("stream") else single})
    async with serving(add, settings=quick(max_held_bytes=200_000)) as target, channel(target) as door:
        alone = send(door, 1_000_000)  # as nothing else is held
        await asyncio.wait_for(inside.wait(), 5)
        with pytest.raises(grpc.aio.AioRpcError, match="no room for 1 MiB") as raised:
            await send(door, 100_000)
        assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        small = [send(door, 10_000) for _ in range(3)]
        leave.set()
        await asyncio.gather(alone, *small)
        await send(door, 100_000)


async def test_the_clients_deadline_goes_before_the_servers():
    async def slow(request, context):
        await asyncio.sleep(0.3)
        return b"done"

    quickly = Deadlines(reply=timedelta(seconds=0.05))
    async with (
        serving(adding(unary_unary=slow), settings=quick(), deadlines=quickly) as target,
        channel(target) as door,
    ):
        assert await call(door, "unary_unary", timeout=5) == [b"done"]


@pytest.mark.parametrize("kind", ["unary_unary", "unary_stream"])
async def test_a_handler_is_cancelled_when_its_client_goes(kind):
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def wait():
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def single(request, context):
        await wait()

    async def streaming(request, context):
        await wait()
        yield b""

    add = adding(**{kind: streaming if kind.endswith("stream") else single})
    async with serving(add, settings=quick()) as target, channel(target) as door:
        rpc = method(door, kind)(b"")
        waiting = asyncio.ensure_future(rpc.read() if kind.endswith("stream") else rpc)
        await asyncio.wait_for(started.wait(), 5)
        rpc.cancel()
        await asyncio.wait_for(cancelled.wait(), 5)
        await asyncio.gather(waiting, return_exceptions=True)


async def test_a_stream_is_closed_when_its_client_goes_while_it_sends():
    closed = asyncio.Event()

    async def endless(request, context):
        try:
            while True:
                yield bytes(1024 * 1024)
        finally:
            closed.set()

    async with serving(adding(unary_stream=endless), settings=quick()) as target, channel(target) as door:
        rpc = method(door, "unary_stream")(b"")
        await rpc.read()
        rpc.cancel()
        await asyncio.wait_for(closed.wait(), 5)


async def test_work_that_is_cancelled_inside_the_server_is_told_to_the_client():
    async def handler(request, context):
        inner = asyncio.ensure_future(asyncio.sleep(60))
        asyncio.get_running_loop().call_soon(inner.cancel)
        await inner

    async with serving(adding(unary_unary=handler)) as target, channel(target) as door:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await call(door, "unary_unary", timeout=5)
        assert raised.value.code() is grpc.StatusCode.CANCELLED


NO_MESSAGES = [b"\x0a\x01\xff", b"\x0a\x05a", b"\xff" * 11]  # a text that is not UTF-8, a cut one, no tag


def greeting(kind: str, seen: list[str]):
    """Takes HealthCheckRequests, each with a text."""

    async def single(request, context):
        seen.extend([one.service async for one in request] if kind.startswith("stream") else [request.service])
        return b"done"

    async def streaming(request, context):
        if not kind.startswith("stream"):
            seen.append(request.service)
            yield b"done"
            return
        async for one in request:
            seen.append(one.service)
            yield b"done"

    return adding(
        parse=health_pb2.HealthCheckRequest.FromString,
        **{kind: streaming if kind.endswith("stream") else single},
    )


async def send(door: grpc.aio.Channel, kind: str, *sent: bytes) -> list[bytes]:
    rpc = method(door, kind)(iter(sent) if kind.startswith("stream") else sent[-1], timeout=10)
    return [reply async for reply in rpc] if kind.endswith("stream") else [await rpc]


@pytest.mark.parametrize("kind", KINDS)
async def test_bytes_that_are_no_message_are_the_callers_fault(kind):
    seen: list[str] = []
    good = health_pb2.HealthCheckRequest(service="é").SerializeToString()
    async with serving(greeting(kind, seen), settings=quick()) as target, channel(target) as door:
        for bad in NO_MESSAGES:
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await send(door, kind, good, bad)
            assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "UTF-8" in raised.value.details()
        seen.clear()
        await send(door, kind, good, good)
    assert seen == (["é"] * 2 if kind.startswith("stream") else ["é"])


async def test_health_and_reflection_refuse_what_is_no_message():
    methods = {
        "/grpc.health.v1.Health/Check": "unary_unary",
        "/grpc.health.v1.Health/Watch": "unary_stream",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": "stream_stream",
    }
    async with serving(echo("unary_unary"), settings=quick()) as target, channel(target) as door:
        for name, kind in methods.items():
            rpc = getattr(door, kind)(name)(iter([NO_MESSAGES[0]]) if kind == "stream_stream" else NO_MESSAGES[0])
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await (rpc.read() if kind.endswith("stream") else rpc)
            assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT, name


async def test_ids_go_from_service_to_service():
    async def tell(request, context):
        return repr(sorted(logs.context().items())).encode()

    async with serving(adding(unary_unary=tell)) as back, channel(back) as to_back:

        async def ask(request, context):
            return await method(to_back, "unary_unary")(request)

        async with serving(adding(unary_unary=ask)) as front, channel(front) as to_front:
            with logs.bound(request_id="req_1", run_id="run_1"):
                [reply] = await call(to_front, "unary_unary")
            assert eval(reply) == [("request_id", "req_1"), ("run_id", "run_1")]
            [reply] = await call(to_front, "unary_unary")
            [(name, value)] = eval(reply)
            assert name == "request_id"
            assert value.startswith("req_")


async def test_calls_are_counted_by_method_and_code():
    async def is_soon(counts: tuple[float, float]) -> None:  # the server counts when the client has its answer already
        async with asyncio.timeout(5):
            while (count("OK"), count("NOT_FOUND")) != counts:
                await asyncio.sleep(0.01)

    def count(code: str) -> float:
        labels = {"method": f"/{SERVICE}/unary_unary", "code": code}
        return REGISTRY.get_sample_value("ratchet_grpc_server_handled_total", labels) or 0.0

    before = count("OK"), count("NOT_FOUND")
    async with serving(echo("unary_unary")) as target, channel(target) as door:
        await call(door, "unary_unary")
    async with serving(failing("unary_unary", errors.NotFound("x"))) as target, channel(target) as door:
        with pytest.raises(grpc.aio.AioRpcError):
            await call(door, "unary_unary")
    await is_soon((before[0] + 1, before[1] + 1))


async def test_who_sends_no_request_is_answered():
    quickly = Deadlines(reply=timedelta(seconds=0.3))
    async with serving(echo("unary_unary"), settings=quick(), deadlines=quickly) as target:
        async with grpc.aio.insecure_channel(target) as stranger, channel(target) as door:
            opened = stranger.stream_unary(f"/{SERVICE}/unary_unary")()
            assert await asyncio.wait_for(opened.code(), 5) is grpc.StatusCode.UNAUTHENTICATED
            token = ((TOKEN_HEADER, service_auth.token()),)
            opened = stranger.stream_unary(f"/{SERVICE}/unary_unary")(metadata=token)
            assert await asyncio.wait_for(opened.code(), 5) is grpc.StatusCode.DEADLINE_EXCEEDED
            ended = stranger.stream_unary(f"/{SERVICE}/unary_unary")(metadata=token)
            await ended.done_writing()
            assert await asyncio.wait_for(ended.code(), 5) is grpc.StatusCode.INVALID_ARGUMENT
            assert await call(door, "unary_unary") == [b"ab"]


async def test_the_token_is_looked_at_before_the_request():
    async with serving(echo("unary_unary"), settings=quick(max_message_bytes=1000)) as target:
        async with grpc.aio.insecure_channel(target) as door:
            for metadata, code in (
                ((), grpc.StatusCode.UNAUTHENTICATED),
                (((TOKEN_HEADER, service_auth.token()),), grpc.StatusCode.RESOURCE_EXHAUSTED),
            ):
                with pytest.raises(grpc.RpcError) as refused:
                    await method(door, "unary_unary")(b"x" * 2000, metadata=metadata)
                assert refused.value.code() is code


async def test_who_asked_goes_from_service_to_service():
    async def who(request, context):
        return interceptors.actor().encode()

    async with serving(adding(unary_unary=who)) as target, channel(target) as door:
        assert await call(door, "unary_unary") == [b""]
        with logs.bound(actor="key_1"):
            assert await call(door, "unary_unary") == [b"key_1"]
