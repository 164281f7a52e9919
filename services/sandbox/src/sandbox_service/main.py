"""Builds the service and runs it: `python -m sandbox_service.main`."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import grpc

from ratchet.sandbox.v1 import sandbox_pb2_grpc
from ratchet_kit import logs
from ratchet_kit.errors import RatchetError
from ratchet_kit.server import serve
from sandbox_service.adapters.observed import ObservedExecutor
from sandbox_service.adapters.zygotes import ZygoteExecutor, ZygoteOptions
from sandbox_service.convert import Bounds
from sandbox_service.domain.levels import Level
from sandbox_service.domain.sandbox import Sandbox
from sandbox_service.servicer import SERVICE, SandboxServicer
from sandbox_service.settings import Settings


@asynccontextmanager
async def sandbox_servicer(settings: Settings) -> AsyncIterator[SandboxServicer]:
    """The whole service but for its port: lanes are up inside, and gone after."""
    options = ZygoteOptions(
        lanes=settings.lanes,
        python=settings.python,
        idle_extra=settings.idle_extra,
        wall_factor=settings.wall_factor,
        max_output_bytes=settings.max_output_bytes,
        max_result_bytes=settings.max_result_bytes,
        job_uid=settings.job_uid,
        min_level=Level[settings.min_level],
    )
    async with ZygoteExecutor(options) as executor:
        sandbox = Sandbox(ObservedExecutor(executor), settings.queue_limit)
        yield SandboxServicer(sandbox, Bounds(settings.max_limits, settings.max_source_bytes))


def adder(servicer: SandboxServicer) -> Callable[[grpc.aio.Server], list[str]]:
    def add(server: grpc.aio.Server) -> list[str]:
        sandbox_pb2_grpc.add_SandboxServiceServicer_to_server(servicer, server)
        return [SERVICE]

    return add


async def run(settings: Settings) -> None:
    logs.configure("sandbox", settings.log_level)
    async with sandbox_servicer(settings) as servicer:
        await serve(settings, "sandbox", adder(servicer))


def main() -> None:
    try:
        asyncio.run(run(Settings()))
    except RatchetError as error:
        sys.exit(f"sandbox-service: {error.message}")


if __name__ == "__main__":
    main()
