"""gRPC in: unpack, call, pack."""

import grpc

from ratchet.sandbox.v1 import sandbox_pb2 as pb
from ratchet.sandbox.v1 import sandbox_pb2_grpc
from sandbox_service import convert
from sandbox_service.domain.sandbox import Sandbox

SERVICE = pb.DESCRIPTOR.services_by_name["SandboxService"].full_name


class SandboxServicer(sandbox_pb2_grpc.SandboxServiceServicer):
    def __init__(self, sandbox: Sandbox, bounds: convert.Bounds) -> None:
        self._sandbox = sandbox
        self._bounds = bounds

    async def Execute(self, request: pb.ExecuteRequest, context: grpc.aio.ServicerContext) -> pb.ExecuteResponse:
        program = convert.program_from_proto(request.program, self._bounds)
        return pb.ExecuteResponse(execution=convert.execution_to_proto(await self._sandbox.execute(program)))

    async def ExecuteBatch(
        self, request: pb.ExecuteBatchRequest, context: grpc.aio.ServicerContext
    ) -> pb.ExecuteBatchResponse:
        programs = convert.programs_from_proto(request.programs, self._bounds)
        items = await self._sandbox.execute_batch(programs)
        return pb.ExecuteBatchResponse(items=[convert.item_to_proto(item) for item in items])

    async def GetCapabilities(
        self, request: pb.GetCapabilitiesRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetCapabilitiesResponse:
        return convert.capabilities_to_proto(self._sandbox.capabilities, self._bounds.limits)
