"""A node of the sandbox, served as it is in production, and the stubs of the four services that it offers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import grpc

from ratchet.sandbox.v1 import (
    batch_pb2_grpc,
    diagnostics_pb2_grpc,
    program_pb2,
    program_pb2_grpc,
    workspace_pb2_grpc,
)
from ratchet_kit import server
from sandbox_service.main import provision
from sandbox_service.settings import Settings

SERVICE = program_pb2.DESCRIPTOR.services_by_name["ProgramService"].full_name


@asynccontextmanager
async def serving(settings: Settings, queue_limit: int = 4096) -> AsyncIterator[str]:
    """Gives the address."""
    limited = partial(provision, queue_limit=queue_limit)
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    task = asyncio.create_task(server.run("sandbox", limited, settings, on_ready=ready.set_result, stop=stop))
    await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    try:
        yield f"127.0.0.1:{ready.result()}"
    finally:
        stop.set()
        await task


@dataclass(frozen=True, slots=True)
class Stubs:
    programs: program_pb2_grpc.ProgramServiceStub
    batches: batch_pb2_grpc.BatchServiceStub
    diagnostics: diagnostics_pb2_grpc.DiagnosticsServiceStub
    workspaces: workspace_pb2_grpc.WorkspaceServiceStub

    @classmethod
    def of(cls, channel: grpc.aio.Channel) -> "Stubs":
        return cls(
            program_pb2_grpc.ProgramServiceStub(channel),
            batch_pb2_grpc.BatchServiceStub(channel),
            diagnostics_pb2_grpc.DiagnosticsServiceStub(channel),
            workspace_pb2_grpc.WorkspaceServiceStub(channel),
        )
