"""gRPC in: unpack, call, pack."""

from collections.abc import AsyncIterator
from contextlib import aclosing

from ratchet.rollout.v1 import rollout_pb2 as pb
from ratchet.rollout.v1 import rollout_pb2_grpc
from ratchet_kit.server import Context
from ratchet_policies.convert_nodes import node_to_proto
from rollout_service import convert
from rollout_service.domain.nodes import Nodes
from rollout_service.domain.policies import Policies
from rollout_service.domain.policy import PolicyName


class RolloutServicer(rollout_pb2_grpc.RolloutServiceServicer):
    """ratchet.rollout.v1.RolloutService over `Policies` and `Nodes`."""

    def __init__(self, policies: Policies, nodes: Nodes) -> None:
        self._policies = policies
        self._nodes = nodes

    async def LoadPolicy(self, request: pb.LoadPolicyRequest, context: Context) -> pb.LoadPolicyResponse:
        policy = await self._policies.load(convert.load_policy_from_proto(request))
        return pb.LoadPolicyResponse(policy=convert.policy_to_proto(policy))

    async def GetPolicy(self, request: pb.GetPolicyRequest, context: Context) -> pb.GetPolicyResponse:
        policy = self._policies.get(PolicyName(request.name))
        return pb.GetPolicyResponse(policy=convert.policy_to_proto(policy))

    async def ListPolicies(self, request: pb.ListPoliciesRequest, context: Context) -> pb.ListPoliciesResponse:
        return convert.page_to_proto(await self._policies.page(request.page_size, request.page_token))

    async def UnloadPolicy(self, request: pb.UnloadPolicyRequest, context: Context) -> pb.UnloadPolicyResponse:
        await self._policies.unload(PolicyName(request.name))
        return pb.UnloadPolicyResponse()

    async def SleepPolicy(self, request: pb.SleepPolicyRequest, context: Context) -> pb.SleepPolicyResponse:
        await self._policies.sleep(PolicyName(request.name))
        return pb.SleepPolicyResponse()

    async def Generate(self, request: pb.GenerateRequest, context: Context) -> pb.GenerateResponse:
        name, generation, expected = convert.generation_from_proto(request)
        return convert.generation_to_proto(await self._policies.generate(name, generation, expected))

    async def StreamGenerate(
        self, request: pb.StreamGenerateRequest, context: Context
    ) -> AsyncIterator[pb.StreamGenerateResponse]:
        name, generation, expected = convert.generation_from_proto(request.request)
        pieces = self._policies.stream(name, generation, expected)
        async with aclosing(pieces):
            async for response in convert.pieces_to_proto(pieces):
                yield response

    async def UpdateWeights(
        self, request_iterator: AsyncIterator[pb.UpdateWeightsRequest], context: Context
    ) -> pb.UpdateWeightsResponse:
        update, weights = await convert.weight_update_from_proto(request_iterator)
        return convert.update_to_proto(await self._policies.update(update, weights))

    async def GetNode(self, request: pb.GetNodeRequest, context: Context) -> pb.GetNodeResponse:
        report = self._nodes.report(request.address)
        return pb.GetNodeResponse(node=node_to_proto(report.node), peers=report.peers)

    async def Drain(self, request: pb.DrainRequest, context: Context) -> pb.DrainResponse:
        return pb.DrainResponse(node=node_to_proto(self._nodes.drain(request.draining)))
