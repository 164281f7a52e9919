"""The rollout nodes, which hold the policies that are served, trained and evaluated."""

from ratchet.common.v1 import node_pb2
from ratchet.gateway.v1 import platform_pb2 as pb
from ratchet_client.calls import Call, Listing, call, listing
from ratchet_client.resource import Resource, S, listed, unary


class Nodes(Resource[S]):
    @listed
    def list(self) -> Listing[node_pb2.Node]:
        """By address, as the gateway saw them last."""
        return listing(pb.ListNodesRequest(), pb.ListNodesResponse, lambda reply: reply.nodes)

    @unary
    def drain(self, address: str) -> Call[node_pb2.Node]:
        """It takes nothing new, and ends what it has."""
        return call(pb.DrainNodeRequest(address=address), pb.DrainNodeResponse, lambda reply: reply.node)

    @unary
    def resume(self, address: str) -> Call[node_pb2.Node]:
        """It takes policies and requests again."""
        return call(pb.ResumeNodeRequest(address=address), pb.ResumeNodeResponse, lambda reply: reply.node)
