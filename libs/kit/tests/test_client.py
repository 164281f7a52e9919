import asyncio
import time
from datetime import timedelta

import grpc
import pytest

from ratchet_kit import addresses, client, errors
from ratchet_kit.client import MAX_MESSAGE_BYTES, channel, wait_healthy
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_kit.settings import ServiceSettings
from ratchet_testing import free_port, serving
from ratchet_testing.echo import adding, method


class Flaky:
    """Fails with `error` the first `failures` times."""

    def __init__(self, failures: int, error: errors.RatchetError) -> None:
        self.left = failures
        self.error = error
        self.calls = 0

    async def unary_unary(self, request, context):
        self.calls += 1
        if self.left > 0:
            self.left -= 1
            raise self.error
        return request

    async def unary_stream(self, request, context):
        yield await self.unary_unary(request, context)


@pytest.mark.parametrize("kind", ["unary_unary", "unary_stream"])
async def test_unavailable_is_sent_again(kind):
    flaky = Flaky(2, errors.Unavailable("not now"))
    async with serving(adding(**{kind: getattr(flaky, kind)})) as target, channel(target) as door:
        rpc = method(door, kind)(b"x")
        assert (await rpc if kind == "unary_unary" else await rpc.read()) == b"x"
    assert flaky.calls == 3


async def test_unavailable_for_too_long_is_raised():
    flaky = Flaky(100, errors.Unavailable("not now"))
    async with serving(adding(unary_unary=flaky.unary_unary)) as target, channel(target) as door:
        with pytest.raises(errors.Unavailable, match="not now"), rpc_errors():
            await method(door, "unary_unary")(b"x")
    assert flaky.calls == 5


async def test_other_errors_are_not_sent_again():
    flaky = Flaky(1, errors.Aborted("changed meanwhile"))
    async with serving(adding(unary_unary=flaky.unary_unary)) as target, channel(target) as door:
        with pytest.raises(errors.Aborted), rpc_errors():
            await method(door, "unary_unary")(b"x")
    assert flaky.calls == 1


@pytest.mark.parametrize("kind", ["unary_unary", "unary_stream", "stream_unary", "stream_stream"])
async def test_every_call_has_a_deadline(kind):
    remaining = []

    async def single(request, context):
        remaining.append(context.time_remaining())
        return b""

    async def streaming(request, context):
        remaining.append(context.time_remaining())
        yield b""

    streams = kind.endswith("stream")
    add = adding(**{kind: streaming if streams else single})
    five, nine = timedelta(seconds=5), timedelta(seconds=9)
    async with serving(add) as target, channel(target, timeout=five, stream_timeout=nine) as door:
        for options in ({}, {"timeout": 2}):
            rpc = method(door, kind)(b"" if kind.startswith("unary") else iter([b""]), **options)
            await (rpc.read() if streams else rpc)
    assert remaining == [pytest.approx(9 if streams else 5, abs=1), pytest.approx(2, abs=1)]


async def test_a_deadline_that_passes_is_an_error():
    async def slow(request, context):
        await asyncio.sleep(60)

    async with serving(adding(unary_unary=slow)) as target, channel(target, timeout=timedelta(seconds=0.1)) as door:
        with pytest.raises(errors.DeadlineExceeded), rpc_errors():
            await method(door, "unary_unary")(b"")


async def test_metadata_of_the_caller_stays():
    async def tell(request, context):
        return dict(context.invocation_metadata())["authorization"].encode()

    async with serving(adding(unary_unary=tell)) as target, channel(target) as door:
        assert await method(door, "unary_unary")(b"", metadata=(("authorization", "Bearer x"),)) == b"Bearer x"


async def test_large_messages():
    async def echo(request, context):
        return request

    large = bytes(MAX_MESSAGE_BYTES - 1024)
    async with serving(adding(unary_unary=echo)) as target, channel(target) as door:
        assert len(await method(door, "unary_unary")(large)) == len(large)


async def test_a_service_that_comes_back_is_found_again():
    async def echo(request, context):
        return request

    settings = ServiceSettings(port=free_port(), grace=timedelta(seconds=1), log_level="CRITICAL")
    async with channel(f"127.0.0.1:{settings.port}") as door:
        async with serving(adding(unary_unary=echo), settings=settings):
            assert await method(door, "unary_unary")(b"1") == b"1"
        async with serving(adding(unary_unary=echo), settings=settings):
            assert await method(door, "unary_unary")(b"2") == b"2"


async def test_wait_healthy_waits_for_the_start():
    settings = ServiceSettings(port=free_port(), log_level="CRITICAL")
    waiting = asyncio.create_task(wait_healthy(f"127.0.0.1:{settings.port}", timedelta(seconds=10)))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    async with serving(lambda server: [], settings=settings):
        await waiting


async def test_wait_healthy_gives_up():
    started = time.monotonic()
    with pytest.raises(errors.Unavailable, match="UNAVAILABLE"):
        await wait_healthy(f"127.0.0.1:{free_port()}", timedelta(seconds=0.5))
    assert time.monotonic() - started < 2


async def test_wait_healthy_of_a_server_without_health():
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    with pytest.raises(errors.Unavailable, match="UNIMPLEMENTED"):
        await wait_healthy(f"127.0.0.1:{port}", timedelta(seconds=0.5))
    await server.stop(None)


def counting(seen, place):
    async def answer(request, context):
        seen[place] += 1
        return request

    return adding(unary_unary=answer)


async def test_calls_are_spread_over_all_the_addresses_of_a_name():
    seen = [0, 0]
    async with serving(counting(seen, 0)) as one, serving(counting(seen, 1)) as two:
        async with channel(f"ipv4:{one},{two}") as door:
            async with asyncio.timeout(10):
                while min(seen) == 0:  # until both are connected
                    await method(door, "unary_unary")(b"")
            seen[:] = 0, 0
            for _ in range(20):
                await method(door, "unary_unary")(b"")
    assert seen == [10, 10]


async def test_calls_of_one_who_keeps_to_an_address_all_go_there():
    seen = [0, 0]
    async with serving(counting(seen, 0)) as one, serving(counting(seen, 1)) as two:
        totals = set()
        async with asyncio.timeout(30):
            while len(totals) < 2:  # by chance the one or the other
                seen[:] = 0, 0
                async with channel(f"ipv4:{one},{two}", to_one=True) as door:
                    for _ in range(20):
                        await method(door, "unary_unary")(b"")
                totals.add(tuple(seen))
    assert totals == {(20, 0), (0, 20)}


async def test_a_name_is_looked_up_again_where_another_service_answers(monkeypatch):
    """As after containers were made anew together: the address is another service's by now, which is connected to."""

    async def answer(request, context):
        return request

    moved = []  # to where the name leads
    open_ = client._open
    monkeypatch.setattr(client, "_open", lambda _, *more: open_(moved[-1], *more))
    monkeypatch.setattr(addresses, "_last", -addresses._EVERY)
    async with serving(lambda server: []) as another, serving(adding(unary_unary=answer)) as own:
        moved.append(another)
        async with channel("name:50051") as door:
            call = method(door, "unary_unary")
            moved.append(own)
            with pytest.raises(errors.Unavailable, match="another service answers"), rpc_errors():
                await call(b"x")
            with rpc_errors():
                assert await call(b"x") == b"x"


async def test_a_method_that_no_server_has_stays_unknown(monkeypatch):
    monkeypatch.setattr(addresses, "_last", -addresses._EVERY)
    monkeypatch.setattr(addresses, "_TOGETHER", 0)
    async with serving(lambda server: []) as older, channel(older) as door:
        for kind in (errors.Unavailable, errors.Unimplemented, errors.Unimplemented):
            with pytest.raises(kind), rpc_errors():
                await method(door, "unary_unary")(b"x")
        assert len(door._channels) == 2
