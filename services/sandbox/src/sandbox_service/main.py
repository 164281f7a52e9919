"""Builds the service and runs it: `python -m sandbox_service.main`."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc

from ratchet.sandbox.v1 import sandbox_pb2_grpc
from ratchet_kit import logs
from ratchet_kit.errors import RatchetError
from ratchet_kit.http_server import HttpServer
from ratchet_kit.server import serve
from sandbox_service.adapters import suite
from sandbox_service.adapters.observed import ObservedExecutor
from sandbox_service.adapters.zygotes import ZygoteExecutor, ZygoteOptions
from sandbox_service.convert import Bounds
from sandbox_service.domain.audit import Audit
from sandbox_service.domain.benchmark import Benchmark
from sandbox_service.domain.levels import Level
from sandbox_service.domain.sandbox import Sandbox
from sandbox_service.rest import app as rest
from sandbox_service.rest.rows import RowFolder
from sandbox_service.rest.running import Runner
from sandbox_service.servicer import SERVICE, SandboxServicer
from sandbox_service.settings import Settings


@dataclass(frozen=True, slots=True)
class Service:
    """The whole service but for its ports."""

    sandbox: Sandbox
    bounds: Bounds
    audit: Audit
    benchmark: Benchmark

    @property
    def servicer(self) -> SandboxServicer:
        return SandboxServicer(self.sandbox, self.bounds, self.audit, self.benchmark)


@asynccontextmanager
async def provision(settings: Settings) -> AsyncIterator[Service]:
    """Lanes are up inside, and gone after."""
    options = ZygoteOptions(
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
    async with ZygoteExecutor(options) as executor:
        observed = ObservedExecutor(executor)
        sandbox = Sandbox(observed, settings.queue_limit)
        audit = Audit(sandbox, executor, suite.attacks())
        yield Service(
            sandbox, Bounds(settings.max_limits, settings.max_source_bytes), audit, Benchmark(sandbox, observed)
        )


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
        await serve(settings, "sandbox", adder(service.servicer), background=[door.run] if door else [])


def main() -> None:
    try:
        asyncio.run(run(Settings()))
    except RatchetError as error:
        sys.exit(f"sandbox-service: {error.message}")


if __name__ == "__main__":
    main()
