"""Builds the service and runs it: `python -m sandbox_service.main`."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache, partial

import grpc

from ratchet.sandbox.v1 import (
    batch_pb2,
    batch_pb2_grpc,
    diagnostics_pb2,
    diagnostics_pb2_grpc,
    program_pb2,
    program_pb2_grpc,
    workspace_pb2,
    workspace_pb2_grpc,
)
from ratchet_kit import server
from ratchet_kit.held import Held
from ratchet_kit.http_server import HttpServer
from ratchet_kit.retention import Kept, tidy
from ratchet_kit.server import Background
from ratchet_kit.times import Clock, SystemClock
from ratchet_kit.work import WorkQueue
from ratchet_kit.worker import Timing, Worker
from sandbox_service import convert, honest
from sandbox_service.adapters import attack_suite
from sandbox_service.adapters.aside.process import AsideProcess
from sandbox_service.adapters.lanes.metered import MeteredLanes
from sandbox_service.adapters.lanes.options import LaneOptions
from sandbox_service.adapters.lanes.pool import LanePool
from sandbox_service.adapters.meter import PrometheusMeter
from sandbox_service.adapters.workspaces.cages import WorkspaceCages
from sandbox_service.domain.audit import Audit, Honest
from sandbox_service.domain.batch import CHUNK
from sandbox_service.domain.batches import Batches, NoBatches
from sandbox_service.domain.levels import Level
from sandbox_service.domain.node_speed import Benchmark
from sandbox_service.domain.ports import BatchStore, Cages, Meter, Pool
from sandbox_service.domain.sandbox import Sandbox
from sandbox_service.domain.workspaces import Workspaces
from sandbox_service.fusion import app
from sandbox_service.fusion.row_folder import RowFolder
from sandbox_service.fusion.running import Runner
from sandbox_service.servicer import BatchServicer, DiagnosticsServicer, ProgramServicer, WorkspaceServicer
from sandbox_service.settings import Settings
from sandbox_service.unpacking import Unpacker
from sandbox_service.worker import MAX_ATTEMPTS, ChunkWork, Wire

SERVICE = "sandbox"
STREAM = "sandbox.batches"
GROUP = "sandbox-nodes"


@dataclass(frozen=True, slots=True)
class Service:
    """What is served, and what works beside it."""

    sandbox: Sandbox
    bounds: convert.Bounds
    unpack: Unpacker
    audit: Audit
    benchmark: Benchmark
    batches: Batches
    workspaces: Workspaces
    background: Sequence[Background]

    def add_to(self, grpc_server: grpc.aio.Server) -> Sequence[str]:
        """Adds the servicers and returns their full names."""
        program_pb2_grpc.add_ProgramServiceServicer_to_server(
            ProgramServicer(self.sandbox, self.bounds, self.unpack), grpc_server
        )
        batch_pb2_grpc.add_BatchServiceServicer_to_server(
            BatchServicer(self.batches, self.bounds, self.unpack), grpc_server
        )
        diagnostics = DiagnosticsServicer(self.audit, self.benchmark)
        diagnostics_pb2_grpc.add_DiagnosticsServiceServicer_to_server(diagnostics, grpc_server)
        workspace_pb2_grpc.add_WorkspaceServiceServicer_to_server(
            WorkspaceServicer(self.workspaces, self.bounds), grpc_server
        )
        files = (program_pb2, batch_pb2, diagnostics_pb2, workspace_pb2)
        return [service.full_name for file in files for service in file.DESCRIPTOR.services_by_name.values()]


@asynccontextmanager
async def provision(
    settings: Settings,
    *,
    pool: Pool | None = None,
    meter: Meter | None = None,
    store: BatchStore | None = None,
    queue: WorkQueue | None = None,
    cages: Cages | None = None,
    clock: Clock | None = None,
    queue_limit: int = 4096,
) -> AsyncIterator[Service]:
    """Lanes are up inside, and gone after. Raises FailedPrecondition when the HTTP port is in use.

    `queue_limit`: programs admitted at a time, running ones included.

    Redis and the database need not be there yet: until they are, batches are UNAVAILABLE, and the rest works.
    """
    async with AsyncExitStack() as stack:
        if pool is None:
            pool = await stack.enter_async_context(LanePool(_lane_options(settings)))
        executor = MeteredLanes(pool)
        aside = await stack.enter_async_context(AsideProcess(at_once=settings.lanes))
        meter = meter or PrometheusMeter()
        sandbox = Sandbox(executor, queue_limit, meter, settings.held_out_attempts, aside, settings.max_held_bytes)
        unpack = Unpacker(aside)
        bounds = convert.Bounds(settings.max_limits, settings.max_source_bytes)
        clock = clock or SystemClock()
        if cages is None:
            ceiling = lambda: pool.capabilities.level  # noqa: E731
            cages = await stack.enter_async_context(WorkspaceCages(_lane_options(settings), ceiling))
        workspaces = Workspaces(cages, clock, settings.workspace_bytes)
        background: list[Background] = [workspaces.run]
        batches: Batches = NoBatches(settings.missing_for_batches)
        if not settings.missing_for_batches:
            store = store or await stack.enter_async_context(_store(settings))
            queue = queue or await stack.enter_async_context(_queue(settings))
        if store is not None and queue is not None:
            batches = Batches(store, queue, lambda: sandbox.capabilities, clock)
            background += _batch_work(settings, sandbox, bounds, unpack, store, queue, clock)
        if settings.http_port is not None:
            runner = Runner(sandbox, bounds, unpack, most_waiting=queue_limit)
            door = app.build(runner, RowFolder(settings.datasets_dir), Held(settings.max_held_bytes))
            background.append(HttpServer(door, settings.host, settings.http_port, settings.grace).run)
        audit = Audit(sandbox, pool, attack_suite.attacks(), cache(partial(_honest, bounds)))
        yield Service(sandbox, bounds, unpack, audit, Benchmark(sandbox, executor), batches, workspaces, background)


def _honest(bounds: convert.Bounds) -> list[Honest]:
    """The programs that ship, as a call would bring them."""

    found = []
    for case in honest.cases():
        (program,) = convert.programs_from_proto([case], bounds, 0)
        twin = honest.wrong(case)
        level = Level.L2 if case.id in honest.NEEDS_L2 else Level.L1
        found.append(Honest(program, replace(program, source=twin.source) if twin else None, level))
    return found


def _lane_options(settings: Settings) -> LaneOptions:
    return LaneOptions(
        lanes=settings.lanes,
        idle_extra=settings.idle_extra,
        wall_factor=settings.wall_factor,
        max_result_bytes=settings.max_result_bytes,
        runtimes_dir=settings.runtimes_dir,
        images=settings.images,
        min_level=Level[settings.min_level],
    )


@asynccontextmanager
async def _store(settings: Settings) -> AsyncIterator[BatchStore]:
    # Half a second and 40 MB, which a sandbox without stored batches does without; and so the queue.
    from ratchet_kit.sql import Database
    from sandbox_service.adapters.batches.sql import SqlBatchStore

    async with Database.opened(settings.database_url, "sandbox_service", lazy=True) as database:
        yield SqlBatchStore(database)


@asynccontextmanager
async def _queue(settings: Settings) -> AsyncIterator[WorkQueue]:
    from ratchet_kit import streams
    from ratchet_kit.queues import StreamQueue

    redis = streams.connect(settings.redis_url)
    try:
        name = settings.worker_name()
        yield StreamQueue(streams.Stream(redis, STREAM, GROUP, name, settings.batch_lease))
    finally:
        await redis.aclose()


def _batch_work(
    settings: Settings,
    sandbox: Sandbox,
    bounds: convert.Bounds,
    unpack: Unpacker,
    store: BatchStore,
    queue: WorkQueue,
    clock: Clock,
) -> list[Background]:
    wire = Wire(
        lambda content: unpack(len(content), convert.program_from_bytes, content, bounds), convert.record_from_item
    )
    work = ChunkWork(settings.worker_name(), settings.batch_lease, store, sandbox, wire, clock)
    # One more than keeps all lanes busy, to have the next programs at hand when a chunk runs out.
    slots = 1 + -(-2 * sandbox.capabilities.lanes // CHUNK)
    timing = Timing.of_lease(settings.batch_lease)
    worker = Worker(queue, work, clock, slots=slots, max_attempts=MAX_ATTEMPTS, timing=timing)

    return [worker.run, partial(tidy, [Kept("batches", settings.keep_batches, store.forget)], clock)]


# A batch may be 256 programs that all run to their limit.
run = partial(server.run, SERVICE, provision, deadlines=server.Deadlines(reply=timedelta(minutes=10)))


def main() -> None:
    server.launch(SERVICE, Settings.read(), run)


if __name__ == "__main__":
    main()
