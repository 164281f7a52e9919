"""Models, their versions, aliases and gates."""

from collections.abc import Mapping

from ratchet.registry.v1 import registry_pb2 as pb
from ratchet_client.calls import Call, Listing, call, listing, new_request_id
from ratchet_client.resource import Resource, S, listed, unary


class Models(Resource[S]):
    @unary
    def get(self, name: str) -> Call[pb.Model]:
        return call(pb.GetModelRequest(name=name), pb.GetModelResponse, lambda reply: reply.model)

    @listed
    def list(self) -> Listing[pb.Model]:
        return listing(pb.ListModelsRequest(), pb.ListModelsResponse, lambda reply: reply.models)

    @unary
    def create_version(
        self, model: str, source_uri: str, *, labels: Mapping[str, str] | None = None, request_id: str = ""
    ) -> Call[pb.Version]:
        """Registers a folder or URL of weights as the next version; the model is made with its first."""
        request = pb.CreateVersionRequest(
            request_id=request_id or new_request_id(), model=model, source_uri=source_uri, labels=labels or {}
        )
        return call(request, pb.CreateVersionResponse, lambda reply: reply.version)

    @unary
    def version(self, model: str, number: int) -> Call[pb.Version]:
        request = pb.GetVersionRequest(model=model, number=number)
        return call(request, pb.GetVersionResponse, lambda reply: reply.version)

    @listed
    def versions(self, model: str) -> Listing[pb.Version]:
        """The newest first."""
        return listing(pb.ListVersionsRequest(model=model), pb.ListVersionsResponse, lambda reply: reply.versions)

    @unary
    def set_alias(self, model: str, alias: str, version: int, *, reason: str = "", gate_id: str = "") -> Call[pb.Model]:
        request = pb.SetAliasRequest(model=model, alias=alias, version=version, reason=reason, gate_id=gate_id)
        return call(request, pb.SetAliasResponse, lambda reply: reply.model)

    @listed
    def alias_history(self, model: str) -> Listing[pb.AliasChange]:
        request = pb.ListAliasHistoryRequest(model=model)
        return listing(request, pb.ListAliasHistoryResponse, lambda reply: reply.changes)

    @unary
    def create_gate(self, request: pb.CreateGateRequest) -> Call[pb.Gate]:
        """Decides whether the candidate may replace the champion."""
        sent = pb.CreateGateRequest()
        sent.CopyFrom(request)
        sent.request_id = request.request_id or new_request_id()
        return call(sent, pb.CreateGateResponse, lambda reply: reply.gate)

    @listed
    def gates(self, model: str) -> Listing[pb.Gate]:
        """The newest first."""
        return listing(pb.ListGatesRequest(model=model), pb.ListGatesResponse, lambda reply: reply.gates)
