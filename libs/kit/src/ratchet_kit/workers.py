"""Several processes of one service on one port: the kernel deals connections out to them (SO_REUSEPORT)."""

import asyncio
import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta

from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from ratchet_kit import metrics
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.logs import get_logger
from ratchet_kit.process import ProcessGroup
from ratchet_kit.settings import ServiceSettings

log = get_logger(__name__)

PAUSE = timedelta(seconds=1)
"""Before a worker that ended is started again."""
_EARLY = timedelta(seconds=10)
_EARLY_ENDS = 3
_METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Where prometheus_client keeps the metrics of a process that others read."""


async def supervise(
    settings: ServiceSettings, ports: Sequence[int], count: int, command: Callable[[int], Sequence[str]]
) -> None:
    """Runs `command(number)` for each of `count` workers until SIGTERM or SIGINT, which ends them as it ends a service.
    One that ends is started again. Their metrics are at `settings.metrics_port`: sums, and gauges by process.

    `ports`: those that they share. Raises FailedPrecondition when one is in use, or a worker ends again and again as
    soon as it is started.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    with ExitStack() as stack:
        for port in ports:
            stack.enter_context(_kept(settings.host, port))
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ratchet-metrics-"))
        registry = CollectorRegistry()
        MultiProcessCollector(registry, path=folder)  # type: ignore[no-untyped-call]
        stack.callback(metrics.start(settings.metrics_port, settings.host, registry))
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
            stack.callback(loop.remove_signal_handler, number)
        try:
            async with asyncio.TaskGroup() as workers:
                for worker in range(count):
                    workers.create_task(_keep(worker, command(worker), folder, settings.grace, stop))
        except* FailedPrecondition as error:
            raise error.exceptions[0] from None


async def _keep(worker: int, command: Sequence[str], folder: str, grace: timedelta, stop: asyncio.Event) -> None:
    early = 0
    stopping = asyncio.create_task(stop.wait())
    try:
        while not stop.is_set():
            started = time.monotonic()
            async with await ProcessGroup.start(command, env=os.environ | {_METRICS_FOLDER: folder}) as group:
                log.info("worker.started", number=worker, pid=group.pid)
                ended = asyncio.create_task(group.wait())
                await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if stop.is_set():
                    await group.stop(grace + PAUSE)
                await ended
            mark_process_dead(group.pid, folder)  # type: ignore[no-untyped-call]
            if stop.is_set():
                return
            log.warning("worker.ended", number=worker, status=group.returncode)
            early = early + 1 if time.monotonic() - started < _EARLY.total_seconds() else 0
            if early == _EARLY_ENDS:
                raise FailedPrecondition(f"worker {worker} ended {early} times as soon as it was started: see above")
            await asyncio.wait({stopping}, timeout=PAUSE.total_seconds())
    finally:
        stopping.cancel()


@contextmanager
def _kept(host: str, port: int) -> Iterator[None]:
    """Nobody else takes the port, also while no worker has it. Raises FailedPrecondition when it is in use."""
    try:
        socket.create_server((host, port)).close()
        with socket.socket() as held:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            held.bind((host, port))
            yield
    except OSError as error:
        raise FailedPrecondition(f"cannot listen on {host}:{port}: {error.strerror}") from error
