import asyncio
import os
import resource
import signal
import socket
import sys
from datetime import timedelta

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from ratchet_kit import errors, interceptors, server
from ratchet_kit.client import channel, wait_healthy
from ratchet_kit.grpc_errors import from_rpc_error
from ratchet_kit.server import MAX_FILES, serve
from ratchet_kit.settings import ServiceSettings
from ratchet_testing import free_port, serving
from ratchet_testing.echo import SERVICE, adding, method

from .calls import call, echo, quick


async def test_health_and_reflection():
    async with serving(echo("unary_unary")) as target, channel(target) as door:
        health = health_pb2_grpc.HealthStub(door)
        reply = await health.Check(health_pb2.HealthCheckRequest(service=SERVICE))
        assert reply.status == health_pb2.HealthCheckResponse.SERVING
        stub = reflection_pb2_grpc.ServerReflectionStub(door)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        [listed] = [reply async for reply in stub.ServerReflectionInfo(iter([request]))]
        names = {service.name for service in listed.list_services_response.service}
        assert names == {SERVICE, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}


async def test_a_container_sees_by_a_file_that_the_service_serves_and_its_loop_turns(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "HEARTBEAT_SECONDS", 0.05)
    file = tmp_path / "serving"
    async with serving(echo("unary_unary"), settings=quick(heartbeat_file=file)):
        while not file.exists():
            await asyncio.sleep(0.01)
        os.utime(file, (0, 0))
        while file.stat().st_mtime == 0:
            await asyncio.sleep(0.01)
    assert not file.exists()


async def test_watches_of_strangers_are_few(monkeypatch):
    monkeypatch.setattr(interceptors, "MAX_OPEN_STREAMS", 3)
    asked = health_pb2.HealthCheckRequest()
    async with serving(echo("unary_unary"), settings=quick(max_concurrent_calls=8)) as target, channel(target) as door:
        health = health_pb2_grpc.HealthStub(door)
        watches = [health.Watch(asked) for _ in range(3)]
        for watch in watches:
            await watch.read()
        with pytest.raises(grpc.RpcError) as refused:
            await health.Watch(asked).read()
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await call(door, "unary_unary") == [b"ab"]
        await health.Check(asked)
        for watch in watches:
            watch.cancel()
        for _ in range(100):
            again = health.Watch(asked)
            try:
                assert await again.read()
                return
            except grpc.RpcError:
                await asyncio.sleep(0.05)
        raise AssertionError("a watch that ended has left no room")


async def test_a_port_in_use_is_an_error():
    port = free_port()
    settings = ServiceSettings(port=port, log_level="CRITICAL")
    async with serving(echo("unary_unary"), settings=settings):
        with pytest.raises(errors.FailedPrecondition, match=str(port)):
            await serve(settings, "second", echo("unary_unary"), stop=asyncio.Event())


async def test_a_metrics_port_in_use_is_an_error():
    port = free_port()
    async with serving(echo("unary_unary"), settings=quick(metrics_port=port)):
        with pytest.raises(errors.FailedPrecondition, match=str(port)):
            await serve(quick(metrics_port=port), "second", echo("unary_unary"), stop=asyncio.Event())


async def test_a_call_under_way_ends_and_new_ones_are_refused():
    arrived = asyncio.Event()

    async def slow(request, context):
        arrived.set()
        await asyncio.sleep(0.3)
        return b"done"

    stop, ready = asyncio.Event(), asyncio.Queue()
    running = asyncio.create_task(
        serve(quick(), "test", adding(unary_unary=slow), on_ready=ready.put_nowait, stop=stop)
    )
    target = f"127.0.0.1:{await ready.get()}"
    async with channel(target) as door:
        rpc = method(door, "unary_unary")(b"")
        waiting = asyncio.ensure_future(rpc)
        await arrived.wait()
        stop.set()
        assert await waiting == b"done"
        await running
        with pytest.raises(errors.Unavailable, match=target):
            await wait_healthy(target, timedelta(seconds=0.2))


async def test_background_work_is_told_of_the_end():
    ended = []

    async def work(stop: asyncio.Event) -> None:
        await stop.wait()
        ended.append(True)

    async with serving(echo("unary_unary"), work):
        pass
    assert ended == [True]


async def test_background_work_that_does_not_end_is_cancelled():
    async def work(stop: asyncio.Event) -> None:
        await asyncio.sleep(600)

    async with serving(
        echo("unary_unary"), work, settings=quick().model_copy(update={"grace": timedelta(0.1 / 86400)})
    ):
        pass


async def test_background_work_that_raises_stops_the_service():
    async def work(stop: asyncio.Event) -> None:
        raise RuntimeError("queue is broken")

    with pytest.raises(RuntimeError, match="queue is broken"):
        await asyncio.wait_for(serve(quick(), "test", echo("unary_unary"), background=[work], stop=asyncio.Event()), 5)


PROGRAM = """
from ratchet_kit.server import launch, serve
from ratchet_kit.settings import ServiceSettings

async def work(stop):
    await stop.wait()
    {ending}

def run(settings):
    return serve(settings, "test", lambda server: [], background=[work], on_ready=lambda port: print(port, flush=True))

launch("test", ServiceSettings(port={port}), run)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(("ending", "code"), [("pass", 0), ("raise RuntimeError('late')", 1)])
async def test_the_exit_code(number, ending, code):
    program = PROGRAM.format(ending=ending, port=0)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=pipe, stderr=pipe)
    try:
        assert process.stdout is not None
        port = int(await asyncio.wait_for(process.stdout.readline(), 10))
        await wait_healthy(f"127.0.0.1:{port}", timedelta(seconds=5))
        os.kill(process.pid, number)
        await asyncio.wait_for(process.wait(), 10)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == code


async def test_what_keeps_a_service_from_running_is_said_in_a_sentence():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        program = PROGRAM.format(ending="pass", port=taken.getsockname()[1])
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stderr=asyncio.subprocess.PIPE)
        _, errors = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 1
    last = errors.decode().splitlines()[-1]
    assert last.startswith("test: test cannot listen on 127.0.0.1:")


async def test_a_service_may_open_as_many_files_as_the_kernel_allows():
    said = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], flush=True)"
    program = PROGRAM.format(ending="pass", port=0).replace("await stop.wait()", f"{said}; stop.set()")
    words = ["bash", "-c", 'ulimit -Sn 256; exec "$0" -c "$1"', sys.executable, program]
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    said, _ = await asyncio.wait_for(process.communicate(), 20)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert str(min(MAX_FILES, hard)) in said.decode().split()


async def test_one_call_more_than_are_taken_together_is_refused():
    going = asyncio.Event()
    under_way = asyncio.Semaphore(0)

    async def unary_unary(request, context):
        under_way.release()
        await going.wait()
        return request

    settings = quick(max_concurrent_calls=2)
    async with serving(adding(unary_unary=unary_unary), settings=settings) as target, channel(target) as door:
        calls = [asyncio.create_task(call(door, "unary_unary")) for _ in range(2)]
        async with asyncio.timeout(5):
            await under_way.acquire()
            await under_way.acquire()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(door, "unary_unary")
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        meant = from_rpc_error(refused.value)
        assert isinstance(meant, errors.ResourceExhausted)
        assert meant.retry_after, "as with all that a busy service refuses"
        going.set()
        assert await asyncio.gather(*calls) == [[b"ab"], [b"ab"]]
