"""gRPC in: unpack, call, pack."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, ParamSpec, TypeVar

from google.protobuf.message import Message

from ratchet.sandbox.v1 import sandbox_pb2 as pb
from ratchet.sandbox.v1 import sandbox_pb2_grpc
from sandbox_service import convert
from sandbox_service.domain.audit import Audit
from sandbox_service.domain.batches import Batches, NoBatches
from sandbox_service.domain.benchmark import Benchmark
from sandbox_service.domain.program import Program
from sandbox_service.domain.sandbox import Sandbox

SERVICE = pb.DESCRIPTOR.services_by_name["SandboxService"].full_name


_LARGE_REQUEST = 1 << 18  # bytes
_P = ParamSpec("_P")
_T = TypeVar("_T")


async def _unpack(convert: Callable[_P, _T], request: Message, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Literals take about a second for each MB to parse: a large request does it in a thread, and nobody else waits."""
    if request.ByteSize() <= _LARGE_REQUEST:
        return convert(*args, **kwargs)
    return await asyncio.to_thread(convert, *args, **kwargs)


async def _joined(first: _T, rest: AsyncIterator[_T]) -> AsyncIterator[_T]:
    yield first
    async for one in rest:
        yield one


def _caller(named: str, context: Any) -> str:
    """As the request says, or the peer's address without its port: "ipv4:10.0.0.7"."""
    return named or str(context.peer()).rpartition(":")[0]


class SandboxServicer(sandbox_pb2_grpc.SandboxServiceServicer):
    def __init__(
        self,
        sandbox: Sandbox,
        bounds: convert.Bounds,
        audit: Audit,
        benchmark: Benchmark,
        batches: Batches | NoBatches,
    ) -> None:
        self._sandbox = sandbox
        self._stored = batches
        self._benchmark = benchmark
        self._audit = audit
        self._bounds = bounds

    async def Execute(self, request: pb.ExecuteRequest, context: Any) -> pb.ExecuteResponse:
        priority = convert.priority_from_proto(request.priority)
        program = await _unpack(convert.program_from_proto, request, request.program, self._bounds)
        execution = await self._sandbox.execute(program, _caller(request.caller, context), priority)
        return pb.ExecuteResponse(execution=convert.execution_to_proto(execution))

    async def ExecuteBatch(
        self, requests: AsyncIterator[pb.ExecuteBatchRequest], context: Any
    ) -> AsyncIterator[pb.ExecuteBatchResponse]:
        first = await anext(aiter(requests), None)
        if first is None:
            return
        batches = self._batches(first, requests)
        caller, priority = _caller(first.caller, context), convert.priority_from_proto(first.priority)
        async with aclosing(self._sandbox.execute_stream(batches, caller, priority)) as stream:
            async for items in stream:
                yield pb.ExecuteBatchResponse(items=[convert.item_to_proto(item) for item in items])

    async def _batches(
        self, first: pb.ExecuteBatchRequest, rest: AsyncIterator[pb.ExecuteBatchRequest]
    ) -> AsyncIterator[list[Program]]:
        index = 0
        async for request in _joined(first, rest):
            yield await _unpack(convert.programs_from_proto, request, request.programs, self._bounds, index)
            index += len(request.programs)

    async def Grade(self, request: pb.GradeRequest, context: Any) -> pb.GradeResponse:
        priority = convert.priority_from_proto(request.priority)
        program, source = await _unpack(convert.graded_from_proto, request, request, self._bounds)
        execution = await self._sandbox.execute(program, _caller(request.caller, context), priority)
        return pb.GradeResponse(execution=convert.execution_to_proto(execution), source=source)

    async def CreateBatch(self, request: pb.CreateBatchRequest, context: Any) -> pb.CreateBatchResponse:
        priority = convert.priority_from_proto(request.priority)
        asked = await _unpack(convert.batch_from_proto, request, request.programs, self._bounds)
        batch = await self._stored.create(asked, _caller(request.caller, context), priority, request.request_id)
        return pb.CreateBatchResponse(batch=convert.batch_to_proto(batch))

    async def GetBatch(self, request: pb.GetBatchRequest, context: Any) -> pb.GetBatchResponse:
        return pb.GetBatchResponse(batch=convert.batch_to_proto(await self._stored.get(request.id)))

    async def WatchBatch(self, request: pb.WatchBatchRequest, context: Any) -> AsyncIterator[pb.WatchBatchResponse]:
        async for progress in self._stored.watch(request.id):
            yield convert.progress_to_proto(progress)

    async def CancelBatch(self, request: pb.CancelBatchRequest, context: Any) -> pb.CancelBatchResponse:
        return pb.CancelBatchResponse(batch=convert.batch_to_proto(await self._stored.cancel(request.id)))

    async def Benchmark(self, request: pb.BenchmarkRequest, context: Any) -> AsyncIterator[pb.BenchmarkResponse]:
        async for measurement in self._benchmark.run(convert.benchmark_size(request.programs)):
            yield convert.measurement_to_proto(measurement)

    async def GetCapabilities(self, request: pb.GetCapabilitiesRequest, context: Any) -> pb.GetCapabilitiesResponse:
        return convert.capabilities_to_proto(await self._sandbox.describe(), self._bounds.limits)

    async def Audit(self, request: pb.AuditRequest, context: Any) -> AsyncIterator[pb.AuditResponse]:
        plan = self._audit.plan(request.attacks)
        async for finding in self._audit.run(plan):
            yield convert.finding_to_proto(finding, len(plan))
