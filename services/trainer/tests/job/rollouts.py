"""Rollout-service for tests: one policy in memory, behind gRPC."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from ratchet.common.v1 import failure_pb2, node_pb2
from ratchet.rollout.v1 import rollout_pb2, rollout_pb2_grpc
from ratchet_kit import policy_id
from ratchet_policies import tensor_changes
from ratchet_testing.services import serving
from trainer_service.job.policy.stream_transport import CHUNK_BYTES


class Rollouts(rollout_pb2_grpc.RolloutServiceServicer):
    """One policy, in memory. `fails`: how many loads end in FAILED."""

    def __init__(self) -> None:
        self.policy: rollout_pb2.Policy | None = None
        self.fails = 0
        self.loads = 0
        self.lies = False
        self.is_damaged = False
        """Whether changes cannot be read."""
        self.tensors: dict[str, policy_id.Tensor] = {}
        self.updates = 0
        self.sleeps: list[str] = []
        self.stays_awake = False
        self.remaining: dict[str, float] = {}
        """Seconds that the last call of each method had left."""
        self.generating = self.most_at_once = 0

    async def GetNode(self, request: Any, context: grpc.aio.ServicerContext) -> rollout_pb2.GetNodeResponse:
        node = node_pb2.Node(state=node_pb2.Node.STATE_SERVING)
        if self.policy is None:
            node.rooms.add(purpose=node_pb2.PURPOSE_TRAINING, free=1)
        else:
            ready = node_pb2.Node.Engine.STATE_READY
            node.engines.add(policy=self.policy.name, state=ready, policy_id=self.policy.policy_id)
        return rollout_pb2.GetNodeResponse(node=node)

    async def GetPolicy(self, request: Any, context: grpc.aio.ServicerContext) -> rollout_pb2.GetPolicyResponse:
        if self.policy is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"policy {request.name}")
        return rollout_pb2.GetPolicyResponse(policy=self.policy)

    async def LoadPolicy(self, request: Any, context: grpc.aio.ServicerContext) -> rollout_pb2.LoadPolicyResponse:
        if self.policy is not None and self.policy.state == rollout_pb2.Policy.STATE_READY:
            return rollout_pb2.LoadPolicyResponse(policy=self.policy)  # whoever asks has not seen it yet
        self.loads += 1
        failed = self.loads <= self.fails
        state = rollout_pb2.Policy.STATE_FAILED if failed else rollout_pb2.Policy.STATE_READY
        self.policy = rollout_pb2.Policy(
            name=request.name,
            source_uri=request.source_uri,
            state=state,
            policy_id="sha256:base",
            failure=failure_pb2.Failure(message="no memory") if failed else None,
        )
        return rollout_pb2.LoadPolicyResponse(policy=rollout_pb2.Policy(state=rollout_pb2.Policy.STATE_LOADING))

    async def UnloadPolicy(self, request: Any, context: grpc.aio.ServicerContext) -> rollout_pb2.UnloadPolicyResponse:
        self.policy = None
        return rollout_pb2.UnloadPolicyResponse()

    async def SleepPolicy(self, request: Any, context: grpc.aio.ServicerContext) -> rollout_pb2.SleepPolicyResponse:
        if self.policy is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"policy {request.name}")
        if self.policy.state != rollout_pb2.Policy.STATE_READY or self.stays_awake:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"policy {request.name}")
        self.sleeps.append(request.name)
        return rollout_pb2.SleepPolicyResponse()

    async def UpdateWeights(
        self, requests: Any, context: grpc.aio.ServicerContext
    ) -> rollout_pb2.UpdateWeightsResponse:
        self.remaining["UpdateWeights"] = context.time_remaining()
        tensors: list[tuple[rollout_pb2.TensorHeader, bytearray]] = []
        self.updates += 1
        async for request in requests:
            match request.WhichOneof("message"):
                case "header":
                    header = request.header
                case "tensor":
                    tensors.append((request.tensor, bytearray()))
                case "chunk":
                    assert len(request.chunk) <= CHUNK_BYTES
                    tensors[-1][1].extend(request.chunk)
        if self.policy is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "policy")
        whole = {}
        if header.HasField("base_policy_id"):
            if header.base_policy_id != self.policy.policy_id:
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "other weights: send them whole")
            if self.is_damaged:
                await context.abort(grpc.StatusCode.DATA_LOSS, "changes of something else")
            whole = dict(self.tensors)
        for tensor, data in tensors:
            new = bytes(data)
            if tensor.changes:
                old = tensor_changes.elements(whole[tensor.name].data, 2).copy()
                places, differences = tensor_changes.decode(bytes(data), len(old), 2)
                old[places] += differences
                new = old.tobytes()
            whole[tensor.name] = policy_id.Tensor(tensor.name, tensor.dtype, tuple(tensor.shape), new)
        received = policy_id.compute(whole.values())
        assert received == header.policy_id
        self.tensors = whole
        self.policy.policy_id = "sha256:other" if self.lies else received
        return rollout_pb2.UpdateWeightsResponse(
            policy=self.policy,
            size_bytes=sum(len(tensor.data) for tensor in whole.values()),
            received_bytes=sum(len(data) for _, data in tensors),
        )

    async def Generate(self, request: Any, context: grpc.aio.ServicerContext) -> rollout_pb2.GenerateResponse:
        self.remaining["Generate"] = context.time_remaining()
        self.generating += 1
        self.most_at_once = max(self.most_at_once, self.generating)
        await asyncio.sleep(0.05)
        self.generating -= 1
        if self.policy is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"policy {request.policy}")
        return rollout_pb2.GenerateResponse(policy_id=self.policy.policy_id)


@asynccontextmanager
async def served(service: Rollouts) -> AsyncIterator[str]:
    def add(server: grpc.aio.Server) -> list[str]:
        rollout_pb2_grpc.add_RolloutServiceServicer_to_server(service, server)
        return ["ratchet.rollout.v1.RolloutService"]

    async with serving(add) as target:
        yield target
