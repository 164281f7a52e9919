"""Models, their versions, aliases and gates."""

from collections.abc import Mapping

from ratchet.common.v1 import model_pb2
from ratchet.gateway.v1 import platform_pb2
from ratchet.registry.v1 import registry_pb2 as pb
from ratchet_client.calls import Call, Listing, Stream, call, listing, new_request_id, nothing, stream
from ratchet_client.resource import Resource, S, last, listed, streamed, unary


class Models(Resource[S]):
    @unary
    def create(self, name: str, description: str = "", request_id: str = "") -> Call[pb.Model]:
        """A model without versions."""
        request = pb.CreateModelRequest(request_id=request_id or new_request_id(), name=name, description=description)
        return call(request, pb.CreateModelResponse, lambda reply: reply.model)

    @unary
    def get(self, name: str) -> Call[pb.Model]:
        return call(pb.GetModelRequest(name=name), pb.GetModelResponse, lambda reply: reply.model)

    @listed
    def list(self) -> Listing[pb.Model]:
        """By name."""
        return listing(pb.ListModelsRequest(), pb.ListModelsResponse, lambda reply: reply.models)

    @unary
    def delete(self, name: str) -> Call[None]:
        """A model that has no versions."""
        return nothing(pb.DeleteModelRequest(name=name), pb.DeleteModelResponse)

    @unary
    def create_version(
        self, model: str, source_uri: str, *, labels: Mapping[str, str] | None = None, request_id: str = ""
    ) -> Call[pb.Version]:
        """The next version, of a folder or URL of weights; the model is made with its first.

        It returns at once: the version is PENDING while it is copied and hashed. See `wait_version`.
        """
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

    @streamed
    def watch_version(self, model: str, number: int) -> Stream[pb.Version]:
        """The version at every change, until it is READY or FAILED."""
        request = pb.WatchVersionRequest(model=model, number=number)
        return stream(request, pb.WatchVersionResponse, lambda reply: reply.version)

    wait_version = last(watch_version.build)
    """The version, when it is READY or FAILED."""

    @unary
    def delete_version(self, model: str, number: int) -> Call[None]:
        """A version that nothing points to, and its artifact."""
        return nothing(pb.DeleteVersionRequest(model=model, number=number), pb.DeleteVersionResponse)

    @unary
    def load_version(self, model: str, number: int) -> Call[str]:
        """Starts to load it for serving. The id of its weights once it is ready; empty while it is being loaded."""
        request = platform_pb2.EnsureVersionLoadedRequest(model=model, number=number)
        return call(request, platform_pb2.EnsureVersionLoadedResponse, lambda reply: reply.policy_id)

    @unary
    def unload_version(self, model: str, number: int) -> Call[None]:
        """From all nodes. The next request for it loads it again."""
        request = platform_pb2.UnloadVersionRequest(model=model, number=number)
        return nothing(request, platform_pb2.UnloadVersionResponse)

    @unary
    def version_health(self, model: str, number: int, days: int = 0) -> Call[platform_pb2.GetVersionHealthResponse]:
        """Its traffic by day and arm, and whether it is worse than before. 0: of 7 days."""
        request = platform_pb2.GetVersionHealthRequest(model=model, number=number, days=days)
        return call(request, platform_pb2.GetVersionHealthResponse, lambda reply: reply)

    @unary
    def set_alias(
        self,
        model: str,
        alias: str,
        number: int,
        *,
        expected_number: int | None = None,
        reason: str = "",
        gate_id: str = "",
    ) -> Call[pb.Model]:
        """`expected_number`: where the alias points now, as far as the caller knows, 0 for nowhere; else ABORTED."""
        request = pb.SetAliasRequest(
            model=model, alias=alias, number=number, expected_number=expected_number, reason=reason, gate_id=gate_id
        )
        return call(request, pb.SetAliasResponse, lambda reply: reply.model)

    @listed
    def alias_history(self, model: str, alias: str = "") -> Listing[pb.AliasChange]:
        """The newest first."""
        request = pb.ListAliasHistoryRequest(model=model, alias=alias)
        return listing(request, pb.ListAliasHistoryResponse, lambda reply: reply.changes)

    @unary
    def create_gate(
        self,
        candidate: model_pb2.VersionRef,
        candidate_evaluation_id: str,
        champion_evaluation_id: str,
        *,
        min_difference: float = 0.0,
        rules: pb.GateRules | None = None,
        request_id: str = "",
    ) -> Call[pb.Gate]:
        """Begins to decide whether the candidate may replace the champion. See `wait_gate`."""
        request = pb.CreateGateRequest(
            request_id=request_id or new_request_id(),
            candidate=candidate,
            candidate_evaluation_id=candidate_evaluation_id,
            champion_evaluation_id=champion_evaluation_id,
            min_difference=min_difference,
            rules=rules,
        )
        return call(request, pb.CreateGateResponse, lambda reply: reply.gate)

    @unary
    def gate(self, gate_id: str) -> Call[pb.Gate]:
        return call(pb.GetGateRequest(id=gate_id), pb.GetGateResponse, lambda reply: reply.gate)

    @listed
    def gates(self, model: str) -> Listing[pb.Gate]:
        """The newest first."""
        return listing(pb.ListGatesRequest(model=model), pb.ListGatesResponse, lambda reply: reply.gates)

    @streamed
    def watch_gate(self, gate_id: str) -> Stream[pb.Gate]:
        """The gate at every change, until it is decided or could not be."""
        return stream(pb.WatchGateRequest(id=gate_id), pb.WatchGateResponse, lambda reply: reply.gate)

    wait_gate = last(watch_gate.build)
    """The gate, when it is decided or could not be."""
