"""ModelRegistry by registry-service."""

from datetime import timedelta

import grpc

from ratchet.registry.v1 import registry_pb2 as pb
from ratchet.registry.v1 import registry_pb2_grpc
from ratchet_kit.errors import Aborted, DeadlineExceeded, ResourceExhausted, Unavailable
from ratchet_kit.grpc_errors import rpc_errors
from trainer_service.domain.ports import FoundModel, Lineage
from trainer_service.domain.references import alias_parts, version_parts
from trainer_service.domain.spec import ModelRef

COPY_TIMEOUT = timedelta(minutes=10)
"""CreateVersion copies the whole artifact before it answers."""


class GrpcModelRegistry:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = registry_pb2_grpc.RegistryServiceStub(channel)

    async def resolve(self, ref: ModelRef) -> FoundModel:
        with rpc_errors():
            version = (await self._stub.GetVersion(_request(ref))).version
        return FoundModel(f"{version.model}@{version.number}", version.artifact_uri)

    async def register(self, request_id: str, model: str, source_uri: str, lineage: Lineage) -> str:
        request = pb.CreateVersionRequest(
            request_id=request_id,
            model=model,
            source_uri=source_uri,
            lineage=pb.Lineage(
                base=lineage.base,
                run_id=lineage.run_id,
                data_digest=lineage.data_digest,
                config_digest=lineage.config_digest,
                code_version=lineage.code_version,
                step=lineage.step,
            ),
        )
        try:
            with rpc_errors():
                reply = await self._stub.CreateVersion(request, timeout=COPY_TIMEOUT.total_seconds())
        except (Aborted, DeadlineExceeded, ResourceExhausted) as error:  # the same request may pass later
            raise Unavailable(f"the registry is busy: {error.message}") from error
        return f"{reply.version.model}@{reply.version.number}"


def _request(ref: ModelRef) -> pb.GetVersionRequest:
    if ref.kind == "alias" and (alias := alias_parts(ref.value)):
        return pb.GetVersionRequest(model=alias[0], alias=alias[1])
    if version := version_parts(ref.value):
        return pb.GetVersionRequest(model=version[0], number=version[1])
    raise ValueError(f"{ref} names no version")
