"""gRPC in: unpack, call, pack."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, ParamSpec, TypeVar

from google.protobuf.message import Message

from ratchet.sandbox.v1 import sandbox_pb2 as pb
from ratchet.sandbox.v1 import sandbox_pb2_grpc
from sandbox_service import convert
from sandbox_service.domain.audit import Audit
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


class SandboxServicer(sandbox_pb2_grpc.SandboxServiceServicer):
    def __init__(self, sandbox: Sandbox, bounds: convert.Bounds, audit: Audit) -> None:
        self._sandbox = sandbox
        self._audit = audit
        self._bounds = bounds

    async def Execute(self, request: pb.ExecuteRequest, context: Any) -> pb.ExecuteResponse:
        program = await _unpack(convert.program_from_proto, request, request.program, self._bounds)
        return pb.ExecuteResponse(execution=convert.execution_to_proto(await self._sandbox.execute(program)))

    async def ExecuteBatch(
        self, requests: AsyncIterator[pb.ExecuteBatchRequest], context: Any
    ) -> AsyncIterator[pb.ExecuteBatchResponse]:
        first = 0
        async for request in requests:
            programs = await _unpack(convert.programs_from_proto, request, request.programs, self._bounds)
            items = await self._sandbox.execute_batch(programs)
            yield pb.ExecuteBatchResponse(
                items=[convert.item_to_proto(item, first + i) for i, item in enumerate(items)]
            )
            first += len(programs)

    async def GetCapabilities(self, request: pb.GetCapabilitiesRequest, context: Any) -> pb.GetCapabilitiesResponse:
        return convert.capabilities_to_proto(await self._sandbox.describe(), self._bounds.limits)

    async def Audit(self, request: pb.AuditRequest, context: Any) -> AsyncIterator[pb.AuditResponse]:
        plan = self._audit.plan(request.attacks)
        async for finding in self._audit.run(plan):
            yield convert.finding_to_proto(finding, len(plan))
