"""PolicyEngine on one rollout-service."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from datetime import timedelta

import grpc

from ratchet.rollout.v1 import rollout_pb2 as pb
from ratchet.rollout.v1 import rollout_pb2_grpc
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_kit.ids import new_id
from ratchet_kit.work import Priority
from ratchet_policies import convert
from ratchet_policies.convert_nodes import node_from_proto
from ratchet_policies.generation import Delta, Generation, Prompt, Sampling
from ratchet_policies.node import Node, NodeReport
from ratchet_policies.policy import Policy, PolicySpec

_QUICK = 60.0
"""Seconds for a call that only looks or starts something."""
_LOOK = 2.0
"""Seconds in which a node that is well says how it is."""


class RolloutEngine:
    """`channel` comes from `ratchet_kit.client.channel`, and is the caller's to close, or `close` does."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        *,
        generate_timeout: timedelta = timedelta(minutes=10),
        unload_timeout: timedelta = timedelta(minutes=1),
    ) -> None:
        self._channel = channel
        self._stub = rollout_pb2_grpc.RolloutServiceStub(channel)
        self._generate_timeout = generate_timeout.total_seconds()
        self._unload_timeout = unload_timeout.total_seconds()

    async def load(self, spec: PolicySpec) -> Policy:
        # A new id for each load: what was loaded, lost and is loaded again is another load.
        request = convert.load_request(spec, new_id("load"))
        with rpc_errors():
            reply = await self._stub.LoadPolicy(request, timeout=_QUICK)
        return convert.policy_from_proto(reply.policy)

    async def get(self, name: str) -> Policy:
        with rpc_errors():
            reply = await self._stub.GetPolicy(pb.GetPolicyRequest(name=name), timeout=_QUICK)
        return convert.policy_from_proto(reply.policy)

    async def all(self) -> Sequence[Policy]:
        return list(map(convert.policy_from_proto, await self.listed()))

    async def listed(self) -> Sequence[pb.Policy]:
        """All of them, in protobuf."""
        policies: list[pb.Policy] = []
        request = pb.ListPoliciesRequest()
        while True:
            with rpc_errors():
                reply = await self._stub.ListPolicies(request, timeout=_QUICK)
            policies += reply.policies
            if not reply.next_page_token:
                return policies
            request = pb.ListPoliciesRequest(page_token=reply.next_page_token)

    async def unload(self, name: str) -> None:
        with rpc_errors():
            await self._stub.UnloadPolicy(pb.UnloadPolicyRequest(name=name), timeout=self._unload_timeout)

    async def sleep(self, name: str) -> None:
        with rpc_errors():
            await self._stub.SleepPolicy(pb.SleepPolicyRequest(name=name), timeout=self._unload_timeout)

    async def generate(
        self, name: str, policy_id: str, prompt: Prompt, sampling: Sampling, priority: Priority = Priority.NORMAL
    ) -> Generation:
        request = convert.generate_request(name, policy_id, prompt, sampling, priority)
        with rpc_errors():
            reply = await self._stub.Generate(request, timeout=self._generate_timeout)
        if reply.policy_id != policy_id:
            raise FailedPrecondition(f"{name} answered from {reply.policy_id}, not from {policy_id}")
        return convert.generation_from_proto(reply)

    async def stream(
        self, name: str, policy_id: str, prompt: Prompt, sampling: Sampling, priority: Priority = Priority.NORMAL
    ) -> AsyncGenerator[Delta]:
        inner = convert.generate_request(name, policy_id, prompt, sampling, priority)
        request = pb.StreamGenerateRequest(request=inner)
        call = self._stub.StreamGenerate(request, timeout=self._generate_timeout)
        try:
            with rpc_errors():
                async for message in call:
                    yield convert.delta_from_proto(message)
        finally:
            call.cancel()

    async def update(
        self, name: str, messages: AsyncIterator[pb.UpdateWeightsRequest], timeout: float
    ) -> pb.UpdateWeightsResponse:
        """UpdateWeights within `timeout` seconds; `messages` name the policy, too."""
        with rpc_errors():
            return await self._stub.UpdateWeights(messages, timeout=timeout)

    async def report(self, caller: str = "") -> NodeReport:
        """How the node is. `caller`: the address of a node that asks."""
        with rpc_errors():
            reply = await self._stub.GetNode(pb.GetNodeRequest(address=caller), timeout=_LOOK)
        return NodeReport(node_from_proto(reply.node), tuple(reply.peers))

    async def drain(self, draining: bool) -> Node:
        """From now on the node takes nothing new; or takes it again."""
        with rpc_errors():
            reply = await self._stub.Drain(pb.DrainRequest(draining=draining), timeout=_QUICK)
        return node_from_proto(reply.node)

    async def close(self) -> None:
        await self._channel.close()
