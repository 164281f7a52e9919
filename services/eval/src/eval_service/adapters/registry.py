"""ModelSource on registry-service."""

import grpc

from eval_service.domain.evaluation import ResolvedModel
from eval_service.domain.spec import AliasRef, ModelRef, PathRef, VersionRef
from ratchet.registry.v1 import registry_pb2, registry_pb2_grpc
from ratchet_kit.grpc_errors import rpc_errors


class GrpcModelSource:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = registry_pb2_grpc.RegistryServiceStub(channel)

    async def resolve(self, ref: ModelRef) -> ResolvedModel:
        match ref:
            case PathRef(path):
                return ResolvedModel(path)
            case VersionRef():
                request = registry_pb2.GetVersionRequest(model=ref.model, number=ref.number)
            case AliasRef():
                request = registry_pb2.GetVersionRequest(model=ref.model, alias=ref.alias)
        with rpc_errors():
            version = (await self._stub.GetVersion(request)).version
        return ResolvedModel(version.artifact_uri, version.policy_id)
