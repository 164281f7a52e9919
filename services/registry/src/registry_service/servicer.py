"""gRPC in: unpack, call, pack."""

from typing import Any

from ratchet.registry.v1 import registry_pb2 as pb
from ratchet.registry.v1 import registry_pb2_grpc
from registry_service.convert import (
    change_to_proto,
    gate_spec_from_proto,
    gate_to_proto,
    lineage_from_proto,
    model_to_proto,
    version_to_proto,
)
from registry_service.domain.aliases import Aliases
from registry_service.domain.catalog import Catalog
from registry_service.domain.gatekeeping import Gates


class RegistryServicer(registry_pb2_grpc.RegistryServiceServicer):
    def __init__(self, catalog: Catalog, aliases: Aliases, gates: Gates) -> None:
        self._catalog = catalog
        self._aliases = aliases
        self._gates = gates

    async def CreateModel(self, request: pb.CreateModelRequest, context: Any) -> pb.CreateModelResponse:
        model = await self._catalog.create_model(request.name, request.description)
        return pb.CreateModelResponse(model=model_to_proto(model))

    async def GetModel(self, request: pb.GetModelRequest, context: Any) -> pb.GetModelResponse:
        return pb.GetModelResponse(model=model_to_proto(await self._catalog.get_model(request.name)))

    async def ListModels(self, request: pb.ListModelsRequest, context: Any) -> pb.ListModelsResponse:
        page = (await self._catalog.list_models(request.page_size, request.page_token)).map(model_to_proto)
        return pb.ListModelsResponse(models=page.items, next_page_token=page.next_page_token)

    async def CreateVersion(self, request: pb.CreateVersionRequest, context: Any) -> pb.CreateVersionResponse:
        version = await self._catalog.create_version(
            request.model,
            request.source_uri,
            lineage_from_proto(request.lineage),
            dict(request.labels),
            request.request_id,
        )
        return pb.CreateVersionResponse(version=version_to_proto(version))

    async def GetVersion(self, request: pb.GetVersionRequest, context: Any) -> pb.GetVersionResponse:
        if request.WhichOneof("which") == "alias":
            version = await self._catalog.get_version_by_alias(request.model, request.alias)
        else:
            version = await self._catalog.get_version(request.model, request.number)
        return pb.GetVersionResponse(version=version_to_proto(version))

    async def ListVersions(self, request: pb.ListVersionsRequest, context: Any) -> pb.ListVersionsResponse:
        page = await self._catalog.list_versions(request.model, request.page_size, request.page_token)
        versions = page.map(version_to_proto)
        return pb.ListVersionsResponse(versions=versions.items, next_page_token=versions.next_page_token)

    async def SetAlias(self, request: pb.SetAliasRequest, context: Any) -> pb.SetAliasResponse:
        model = await self._aliases.set(request.model, request.alias, request.version, request.reason, request.gate_id)
        return pb.SetAliasResponse(model=model_to_proto(model))

    async def ListAliasHistory(self, request: pb.ListAliasHistoryRequest, context: Any) -> pb.ListAliasHistoryResponse:
        page = await self._aliases.history(request.model, request.alias, request.page_size, request.page_token)
        changes = page.map(change_to_proto)
        return pb.ListAliasHistoryResponse(changes=changes.items, next_page_token=changes.next_page_token)

    async def CreateGate(self, request: pb.CreateGateRequest, context: Any) -> pb.CreateGateResponse:
        gate = await self._gates.create(gate_spec_from_proto(request), request.request_id)
        return pb.CreateGateResponse(gate=gate_to_proto(gate))

    async def GetGate(self, request: pb.GetGateRequest, context: Any) -> pb.GetGateResponse:
        return pb.GetGateResponse(gate=gate_to_proto(await self._gates.get(request.id)))

    async def ListGates(self, request: pb.ListGatesRequest, context: Any) -> pb.ListGatesResponse:
        page = (await self._gates.list(request.model, request.page_size, request.page_token)).map(gate_to_proto)
        return pb.ListGatesResponse(gates=page.items, next_page_token=page.next_page_token)
