"""Builds the service and runs it: `python -m sandbox_service.main`."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

import grpc

from ratchet.sandbox.v1 import sandbox_pb2_grpc
from ratchet_kit import logs
from ratchet_kit.errors import RatchetError
from ratchet_kit.http_server import HttpServer
from ratchet_kit.ids import new_id
from ratchet_kit.server import Background, serve
from ratchet_kit.times import SystemClock
from sandbox_service.adapters import attack_suite
from sandbox_service.adapters.lanes.lane import LaneOptions
from sandbox_service.adapters.lanes.metered import MeteredLanes
from sandbox_service.adapters.lanes.pool import LanePool
from sandbox_service.adapters.meter import PrometheusMeter
from sandbox_service.convert import Bounds, program_from_bytes, record_from_item
from sandbox_service.domain.audit import Audit
from sandbox_service.domain.batches import Batches, NoBatches
from sandbox_service.domain.benchmark import Benchmark
from sandbox_service.domain.levels import Level
from sandbox_service.domain.sandbox import Sandbox
from sandbox_service.fusion import app as rest
from sandbox_service.fusion.rows import RowFolder
from sandbox_service.fusion.running import Runner
from sandbox_service.servicer import SERVICE, SandboxServicer
from sandbox_service.settings import Settings

STREAM = "sandbox.batches"
GROUP = "sandbox-nodes"


@dataclass(frozen=True, slots=True)
class Service:
    """The whole service but for its ports."""

    sandbox: Sandbox
    bounds: Bounds
    audit: Audit
    benchmark: Benchmark
    batches: Batches | NoBatches
    background: list[Background]

    @property
    def servicer(self) -> SandboxServicer:
        return SandboxServicer(self.sandbox, self.bounds, self.audit, self.benchmark, self.batches)


@asynccontextmanager
async def provision(settings: Settings) -> AsyncIterator[Service]:
    """Lanes are up inside, and gone after."""
    options = LaneOptions(
        lanes=settings.lanes,
        python=settings.python,
        idle_extra=settings.idle_extra,
        wall_factor=settings.wall_factor,
        max_output_bytes=settings.max_output_bytes,
        max_result_bytes=settings.max_result_bytes,
        job_uid=settings.job_uid,
        runtimes_dir=settings.runtimes_dir,
        min_level=Level[settings.min_level],
    )
    async with AsyncExitStack() as stack:
        executor = await stack.enter_async_context(LanePool(options))
        observed = MeteredLanes(executor)
        sandbox = Sandbox(observed, settings.queue_limit, PrometheusMeter())
        audit = Audit(sandbox, executor, attack_suite.attacks())
        bounds = Bounds(settings.max_limits, settings.max_source_bytes)
        batches: Batches | NoBatches = NoBatches(settings.missing_for_batches)
        background: list[Background] = []
        if not settings.missing_for_batches:
            batches, work = await stack.enter_async_context(batching(settings, sandbox, bounds))
            background.append(work)
        yield Service(sandbox, bounds, audit, Benchmark(sandbox, observed), batches, background)


@asynccontextmanager
async def batching(settings: Settings, sandbox: Sandbox, bounds: Bounds) -> AsyncIterator[tuple[Batches, Background]]:
    """Redis and the database need not be there yet: until they are, batches are UNAVAILABLE, and the rest works."""
    # Half a second and 40 MB, which a sandbox without stored batches does without.
    from ratchet_kit import sql, streams
    from sandbox_service.adapters.batches.sql import SqlBatchStore
    from sandbox_service.worker import MAX_ATTEMPTS, StreamQueue, Timing, Wire, Worker

    async with AsyncExitStack() as stack:
        engine = sql.create_engine(settings.database_url)
        stack.push_async_callback(engine.dispose)
        redis = streams.connect(settings.redis_url)
        stack.push_async_callback(redis.aclose)
        # Whoever listens on this port of this host is the only one; a free port says nothing of that kind.
        name = f"{socket.gethostname()}:{settings.port}" if settings.port else new_id("node")
        stream = streams.Stream(redis, STREAM, GROUP, name, MAX_ATTEMPTS + 1, settings.batch_lease)
        queue, clock = StreamQueue(stream), SystemClock()
        store = SqlBatchStore(engine, partial(sql.migrate, settings.database_url, "sandbox_service"))
        batches = Batches(store, queue, lambda: sandbox.capabilities, clock)
        wire = Wire(partial(program_from_bytes, bounds=bounds), record_from_item)
        timing = Timing(
            settings.batch_lease,
            settings.batch_lease / 10,
            settings.batch_reconcile_interval,
            settings.batch_retention,
        )
        yield batches, Worker(name, stream, queue, store, sandbox, wire, clock, timing).run


@asynccontextmanager
async def sandbox_servicer(settings: Settings) -> AsyncIterator[SandboxServicer]:
    async with provision(settings) as service:
        yield service.servicer


def fusion_door(service: Service, settings: Settings) -> HttpServer | None:
    """Raises FailedPrecondition when its port is in use."""
    if settings.http_port is None:
        return None
    runner = Runner(service.sandbox, service.bounds, most_waiting=settings.queue_limit)
    app = rest.build(runner, RowFolder(settings.datasets_dir))
    return HttpServer(app, settings.host, settings.http_port, settings.grace)


def adder(servicer: SandboxServicer) -> Callable[[grpc.aio.Server], list[str]]:
    def add(server: grpc.aio.Server) -> list[str]:
        sandbox_pb2_grpc.add_SandboxServiceServicer_to_server(servicer, server)
        return [SERVICE]

    return add


async def run(settings: Settings) -> None:
    logs.configure("sandbox", settings.log_level)
    async with provision(settings) as service:
        door = fusion_door(service, settings)
        await serve(
            settings,
            "sandbox",
            adder(service.servicer),
            background=[*service.background, *([door.run] if door else [])],
        )


def main() -> None:
    try:
        asyncio.run(run(Settings()))
    except RatchetError as error:
        sys.exit(f"sandbox-service: {error.message}")


if __name__ == "__main__":
    main()
