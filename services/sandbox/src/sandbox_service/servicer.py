"""gRPC in: unpack, call, pack."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TypeVar

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
from ratchet_kit.errors import RatchetError
from ratchet_kit.server import Context
from sandbox_service import convert
from sandbox_service.domain.audit import Audit
from sandbox_service.domain.batches import Batches
from sandbox_service.domain.node_speed import Benchmark
from sandbox_service.domain.program import Program
from sandbox_service.domain.sandbox import Sandbox
from sandbox_service.domain.stream import portions
from sandbox_service.domain.workspaces import Workspaces
from sandbox_service.unpacking import Unpacker

_T = TypeVar("_T")


async def _joined(first: _T, rest: AsyncIterator[_T]) -> AsyncIterator[_T]:
    yield first
    async for one in rest:
        yield one


def _caller(named: str, context: Context) -> str:
    return convert.caller_from_proto(named, str(context.peer()))


class ProgramServicer(program_pb2_grpc.ProgramServiceServicer):
    def __init__(self, sandbox: Sandbox, bounds: convert.Bounds, unpack: Unpacker) -> None:
        self._sandbox = sandbox
        self._bounds = bounds
        self._unpack = unpack

    async def Execute(self, request: program_pb2.ExecuteRequest, context: Context) -> program_pb2.ExecuteResponse:
        call = await self._unpack(request.ByteSize(), convert.execute_from_proto, request, self._bounds)
        request.ClearField("program")  # as it waits, it is held once
        execution = await self._sandbox.execute(call.program, _caller(request.caller, context), call.priority)
        return program_pb2.ExecuteResponse(execution=convert.execution_to_proto(execution))

    async def StreamExecute(
        self, requests: AsyncIterator[program_pb2.StreamExecuteRequest], context: Context
    ) -> AsyncIterator[program_pb2.StreamExecuteResponse]:
        first = await anext(aiter(requests), None)
        if first is None:
            return
        batches = self._batches(first, requests)
        caller, priority = _caller(first.caller, context), convert.stream_priority_from_proto(first)
        async with aclosing(self._sandbox.execute_stream(batches, caller, priority)) as stream:
            async for items in stream:
                for some in portions([convert.item_to_proto(item) for item in items], lambda item: item.ByteSize()):
                    yield program_pb2.StreamExecuteResponse(items=some)

    async def _batches(
        self, first: program_pb2.StreamExecuteRequest, rest: AsyncIterator[program_pb2.StreamExecuteRequest]
    ) -> AsyncIterator[list[Program]]:
        index = 0
        async for request in _joined(first, rest):
            programs = await self._unpack(
                request.ByteSize(), convert.programs_from_proto, request.programs, self._bounds, index
            )
            request.ClearField("programs")
            index += len(programs)
            yield programs

    async def Grade(self, request: program_pb2.GradeRequest, context: Context) -> program_pb2.GradeResponse:
        call = await self._unpack(request.ByteSize(), convert.grade_from_proto, request, self._bounds)
        request.ClearField("problem")
        execution = await self._sandbox.execute(call.program, _caller(request.caller, context), call.priority)
        return program_pb2.GradeResponse(execution=convert.execution_to_proto(execution), source=call.program.source)

    async def GetCapabilities(
        self, request: program_pb2.GetCapabilitiesRequest, context: Context
    ) -> program_pb2.GetCapabilitiesResponse:
        return convert.capabilities_to_proto(await self._sandbox.describe(), self._bounds.limits)


class BatchServicer(batch_pb2_grpc.BatchServiceServicer):
    def __init__(self, batches: Batches, bounds: convert.Bounds, unpack: Unpacker) -> None:
        self._stored = batches
        self._bounds = bounds
        self._unpack = unpack

    async def CreateBatch(
        self, request: batch_pb2.CreateBatchRequest, context: Context
    ) -> batch_pb2.CreateBatchResponse:
        new = await self._unpack(request.ByteSize(), convert.new_batch_from_proto, request, self._bounds)
        caller = _caller(request.caller, context)
        batch = await self._stored.create(new.programs, caller, new.priority, request.request_id)
        return batch_pb2.CreateBatchResponse(batch=convert.batch_to_proto(batch))

    async def GetBatch(self, request: batch_pb2.GetBatchRequest, context: Context) -> batch_pb2.GetBatchResponse:
        return batch_pb2.GetBatchResponse(
            batch=convert.batch_to_proto(await self._stored.get(request.id, _caller(request.caller, context)))
        )

    async def ListBatches(
        self, request: batch_pb2.ListBatchesRequest, context: Context
    ) -> batch_pb2.ListBatchesResponse:
        caller = _caller(request.caller, context)
        return convert.page_to_proto(await self._stored.page(request.page_size, request.page_token, caller))

    async def WatchBatch(
        self, request: batch_pb2.WatchBatchRequest, context: Context
    ) -> AsyncIterator[batch_pb2.WatchBatchResponse]:
        async for progress in self._stored.watch(request.id, _caller(request.caller, context)):
            yield convert.progress_to_proto(progress)

    async def CancelBatch(
        self, request: batch_pb2.CancelBatchRequest, context: Context
    ) -> batch_pb2.CancelBatchResponse:
        batch = await self._stored.cancel(request.id, _caller(request.caller, context))
        return batch_pb2.CancelBatchResponse(batch=convert.batch_to_proto(batch))

    async def DeleteBatch(
        self, request: batch_pb2.DeleteBatchRequest, context: Context
    ) -> batch_pb2.DeleteBatchResponse:
        await self._stored.delete(request.id, _caller(request.caller, context))
        return batch_pb2.DeleteBatchResponse()


class DiagnosticsServicer(diagnostics_pb2_grpc.DiagnosticsServiceServicer):
    def __init__(self, audit: Audit, benchmark: Benchmark) -> None:
        self._audit = audit
        self._benchmark = benchmark

    async def Audit(
        self, request: diagnostics_pb2.AuditRequest, context: Context
    ) -> AsyncIterator[diagnostics_pb2.AuditResponse]:
        call = convert.audit_from_proto(request)
        honest = await asyncio.to_thread(self._audit.honest, call.names)
        attacks = self._audit.attacks(call.names)
        total = len(attacks) + len(honest) + bool(call.mixed)
        async for finding in self._audit.run(attacks, honest, call.mixed):
            yield convert.finding_to_proto(finding, total)

    async def Benchmark(
        self, request: diagnostics_pb2.BenchmarkRequest, context: Context
    ) -> AsyncIterator[diagnostics_pb2.BenchmarkResponse]:
        async for measurement in self._benchmark.run(convert.benchmark_size(request)):
            yield convert.measurement_to_proto(measurement)


class WorkspaceServicer(workspace_pb2_grpc.WorkspaceServiceServicer):
    def __init__(self, workspaces: Workspaces, bounds: convert.Bounds) -> None:
        self._workspaces = workspaces
        self._bounds = bounds

    async def CreateWorkspace(
        self, request: workspace_pb2.CreateWorkspaceRequest, context: Context
    ) -> workspace_pb2.CreateWorkspaceResponse:
        new = convert.new_workspace_from_proto(request, self._bounds)
        caller = _caller(request.caller, context)
        made = await self._workspaces.create(new.spec, new.lease, caller, request.request_id, new.copy_of)
        return workspace_pb2.CreateWorkspaceResponse(workspace=convert.workspace_to_proto(made))

    async def ListWorkspaces(
        self, request: workspace_pb2.ListWorkspacesRequest, context: Context
    ) -> workspace_pb2.ListWorkspacesResponse:
        caller = _caller(request.caller, context)
        return convert.workspaces_to_proto(await self._workspaces.page(request.page_size, request.page_token, caller))

    async def RenewWorkspace(
        self, request: workspace_pb2.RenewWorkspaceRequest, context: Context
    ) -> workspace_pb2.RenewWorkspaceResponse:
        lease = convert.lease_from_proto(request)
        renewed = await self._workspaces.renew(request.id, lease, _caller(request.caller, context))
        return workspace_pb2.RenewWorkspaceResponse(workspace=convert.workspace_to_proto(renewed))

    async def DeleteWorkspace(
        self, request: workspace_pb2.DeleteWorkspaceRequest, context: Context
    ) -> workspace_pb2.DeleteWorkspaceResponse:
        await self._workspaces.delete(request.id, _caller(request.caller, context))
        return workspace_pb2.DeleteWorkspaceResponse()

    async def Exec(
        self, requests: AsyncIterator[workspace_pb2.ExecRequest], context: Context
    ) -> AsyncIterator[workspace_pb2.ExecResponse]:
        rest = aiter(requests)
        start = convert.start_from_proto(await anext(rest, None))
        command, caller = convert.command_from_proto(start), _caller(start.caller, context)
        given = (convert.given_from_proto(request, command.relay) async for request in rest)
        async with aclosing(self._workspaces.exec(start.id, command, given, caller)) as events:
            async for event in events:
                yield convert.event_to_proto(event)

    async def WriteFiles(
        self, requests: AsyncIterator[workspace_pb2.WriteFilesRequest], context: Context
    ) -> workspace_pb2.WriteFilesResponse:
        rest = aiter(requests)
        first = await anext(rest, workspace_pb2.WriteFilesRequest())
        folder, caller = convert.folder_from_proto(first), _caller(first.caller, context)
        archive = (request.tar async for request in _joined(first, rest))
        try:
            usage = await self._workspaces.write(first.id, folder, archive, caller)
        except RatchetError:
            async for _ in rest:
                pass  # a client that is still writing would not learn why
            raise
        return workspace_pb2.WriteFilesResponse(usage=convert.usage_to_proto(usage))

    async def ReadFiles(
        self, request: workspace_pb2.ReadFilesRequest, context: Context
    ) -> AsyncIterator[workspace_pb2.ReadFilesResponse]:
        paths, caller = convert.paths_from_proto(request.paths), _caller(request.caller, context)
        async with aclosing(self._workspaces.read(request.id, paths, caller, request.changed)) as chunks:
            async for chunk in chunks:
                yield workspace_pb2.ReadFilesResponse(tar=chunk)
