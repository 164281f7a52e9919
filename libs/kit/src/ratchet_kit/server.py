"""Runs a service: a gRPC server with health, reflection and the common interceptors, from start to graceful end."""

import asyncio
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health
from grpc_reflection.v1alpha import reflection

from ratchet_kit import held, interceptors, logs, metrics, service_auth, traces
from ratchet_kit.client import MAX_MESSAGE_BYTES
from ratchet_kit.errors import FailedPrecondition, RatchetError
from ratchet_kit.settings import ServiceSettings

log = logs.get_logger(__name__)

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
"""What a method of a servicer is given beside its request."""
AddServicers: TypeAlias = Callable[[grpc.aio.Server], Sequence[str]]
"""Adds servicers to a server and returns their full names, such as `ratchet.eval.v1.EvalService`."""
Background: TypeAlias = Callable[[asyncio.Event], Awaitable[None]]
"""Work beside the server: returns soon after the event is set, or earlier when it has nothing left to do."""
S = TypeVar("S", bound=ServiceSettings)

HEARTBEAT_SECONDS = 5
"""The image's HEALTHCHECK takes a file that is four times as old for a service that hangs."""
MAX_FILES = 1 << 16
"""That a service may have open, where the kernel allows so many. No more: programs that it starts may go through them
all."""


class Service(Protocol):
    """What a service's `provision` builds."""

    @property
    def background(self) -> Sequence[Background]: ...

    def add_to(self, grpc_server: grpc.aio.Server) -> Sequence[str]:
        """Adds the servicers and returns their full names."""


_OPTIONS = [
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),  # clients of ours ping each 30 s
    # A server that was short of CPU reads several pings at once: no reason to end the connection and its watches.
    ("grpc.http2.max_ping_strikes", 0),
]


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The deadlines of calls that came without one."""

    reply: timedelta = timedelta(seconds=60)
    """With one reply."""
    stream: timedelta = timedelta(hours=1)
    """Whose reply is a stream."""


def launch(
    service_name: str,
    settings: S,
    run: Callable[[S], Coroutine[Any, Any, None]],
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    """The `main` of a service: configures its logs and what it may open, then runs it until SIGTERM or SIGINT, in
    asyncio's event loop or in one that `new_loop` makes.

    What keeps the service from running ends the process with one sentence and the exit status 1.
    """
    logs.configure(service_name, settings.log_level)
    _allow_many_files()
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(run(settings))
    except RatchetError as error:
        sys.exit(f"{service_name}: {error.message}")


def _allow_many_files() -> None:
    """Each connection is a descriptor, and shells allow 1,024 of them where the kernel allows many more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(MAX_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def run(
    service_name: str,
    provision: Callable[[S], AbstractAsyncContextManager[Service]],
    settings: S,
    *,
    on_ready: Callable[[int], None] | None = None,
    stop: asyncio.Event | None = None,
    deadlines: Deadlines = Deadlines(),
) -> None:
    """The `run` of a service: builds it, then serves as `serve` says."""
    async with provision(settings) as service:
        await serve(
            settings,
            service_name,
            service.add_to,
            background=service.background,
            on_ready=on_ready,
            stop=stop,
            deadlines=deadlines,
        )


async def serve(
    settings: ServiceSettings,
    service_name: str,
    add: AddServicers,
    *,
    background: Sequence[Background] = (),
    wrappers: Sequence[interceptors.Wrapper] | None = None,
    on_ready: Callable[[int], None] | None = None,
    stop: asyncio.Event | None = None,
    shares_port: bool = False,
    deadlines: Deadlines = Deadlines(),
) -> None:
    """Serves until SIGTERM or SIGINT, then drains and returns, so that the process exits 0.

    The end: health says NOT_SERVING, new calls are refused, calls and background work that are under way get
    `settings.grace` to end, and what is left then is cancelled. Callers are services of ours and show their token
    (service_auth.py). A door for others has `wrappers` in place of that, which run inside the interceptors that
    every service has, before and after each call; what they raise is answered like a handler's error. `on_ready` is
    given the port once calls are answered.
    `stop` takes the place of the signals where the process is not the service's own, as in a test. `shares_port`: with
    the other `workers`.

    Raises:
        FailedPrecondition: a port is in use, or the token or a certificate cannot be read.
        Exception: what a background task raised; the server is drained first, and the process exits non-zero.
    """
    stop_traces = traces.configure(service_name, settings.otlp_endpoint)
    stop_metrics = metrics.start(settings.metrics_port, settings.host)
    try:
        if stop is not None:
            await _serve(settings, service_name, add, background, wrappers, on_ready, stop, shares_port, deadlines)
            return
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        try:
            await _serve(settings, service_name, add, background, wrappers, on_ready, stop, shares_port, deadlines)
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
    finally:
        stop_metrics()
        stop_traces()


async def _serve(
    settings: ServiceSettings,
    service_name: str,
    add: AddServicers,
    background: Sequence[Background],
    wrappers: Sequence[interceptors.Wrapper] | None,
    on_ready: Callable[[int], None] | None,
    stop: asyncio.Event,
    shares_port: bool,
    deadlines: Deadlines,
) -> None:
    grace = settings.grace.total_seconds()
    is_public = wrappers is not None
    if wrappers is None:
        wrappers = [interceptors.token_check(service_auth.Fresh(service_auth.expected_digests))]
    credentials = service_auth.server_credentials(is_public)
    interceptor = interceptors.CallInterceptor(
        [*interceptors.SERVICE, interceptors.few_open_calls(), *wrappers],
        deadlines.reply,
        deadlines.stream,
        held.Held(settings.max_held_bytes),
    )
    options = [
        *_OPTIONS,
        # Otherwise a second server on the same port is an error, not a second half of the calls.
        ("grpc.so_reuseport", int(shares_port)),
        ("grpc.max_receive_message_length", settings.max_message_bytes),
    ]
    server = grpc.aio.server(
        interceptors=[*traces.server_interceptors(), interceptor],
        options=options,
        maximum_concurrent_rpcs=settings.max_concurrent_calls,
    )
    names = [*add(server), health_pb2.DESCRIPTOR.services_by_name["Health"].full_name]
    state = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(state, server)
    reflection.enable_server_reflection([*names, reflection.SERVICE_NAME], server)
    address = f"{settings.host}:{settings.port}"
    try:
        port = (
            server.add_insecure_port(address) if credentials is None else server.add_secure_port(address, credentials)
        )
    except RuntimeError as error:
        raise FailedPrecondition(
            f"{service_name} cannot listen on {address}: the port is in use or not ours"
        ) from error
    await server.start()
    tasks = [asyncio.create_task(_run(work, stop)) for work in background]
    try:
        for name in ("", *names):
            await state.set(name, health_pb2.HealthCheckResponse.SERVING)
        log.info("service.serving", address=f"{settings.host}:{port}")
        if on_ready is not None:
            on_ready(port)
        if settings.heartbeat_file is not None:
            tasks.append(asyncio.create_task(_run(partial(_beat, settings.heartbeat_file), stop)))
        await stop.wait()
        log.info("service.stopping", grace_seconds=grace)
    finally:
        stop.set()
        await state.enter_graceful_shutdown()
        await asyncio.gather(server.stop(grace), _end(tasks, grace))
        log.info("service.stopped")
    for task in tasks:
        if not task.cancelled():
            task.result()


async def _beat(file: Path, stop: asyncio.Event) -> None:
    """Keeps `file` young while the event loop turns, and removes it at the end."""
    try:
        while not stop.is_set():
            await asyncio.to_thread(file.touch)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), HEARTBEAT_SECONDS)
    finally:
        await asyncio.to_thread(file.unlink, missing_ok=True)


async def _run(work: Background, stop: asyncio.Event) -> None:
    try:
        await work(stop)
    except Exception:
        log.exception("background.failed", work=getattr(work, "__qualname__", repr(work)))
        stop.set()
        raise


async def _end(tasks: Sequence[asyncio.Task[None]], grace: float) -> None:
    """Waits `grace` seconds for the tasks, which know of the stop, then cancels those that are left."""
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=grace)
    for task in late:
        log.warning("background.cancelled", grace_seconds=grace)
        task.cancel()
    if late:
        await asyncio.wait(late)
