"""The services of the platform, the names that it knows, and the policies that its engines have loaded."""

from ratchet.gateway.v1 import platform_pb2 as pb
from ratchet.rollout.v1 import rollout_pb2
from ratchet_client.calls import Call, Listing, call, listing
from ratchet_client.resource import Resource, S, listed, unary


class Platform(Resource[S]):
    @unary
    def get(self) -> Call[pb.GetPlatformResponse]:
        """The health of each service, as the gateway sees it now."""
        return call(pb.GetPlatformRequest(), pb.GetPlatformResponse, lambda reply: reply)

    @unary
    def catalogue(self) -> Call[pb.GetCatalogueResponse]:
        """Names that a spec may say: algorithms, rewards, sets, benchmarks and measures."""
        return call(pb.GetCatalogueRequest(), pb.GetCatalogueResponse, lambda reply: reply)

    @listed
    def policies(self) -> Listing[rollout_pb2.Policy]:
        """By name."""
        reply = rollout_pb2.ListPoliciesResponse
        return listing(rollout_pb2.ListPoliciesRequest(), reply, lambda reply: reply.policies)
