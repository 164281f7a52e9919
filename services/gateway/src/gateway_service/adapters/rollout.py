"""PolicyEngine: the rollout service, through gRPC."""

from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import TYPE_CHECKING

from gateway_service import convert
from gateway_service.domain.serving.generation import Delta, Generation, Prompt, Sampling
from gateway_service.domain.serving.ports import Policy
from ratchet.rollout.v1 import rollout_pb2 as pb
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_kit.ids import new_id

if TYPE_CHECKING:
    from ratchet.rollout.v1.rollout_pb2_grpc import RolloutServiceAsyncStub


class RolloutPolicyEngine:
    def __init__(self, stub: "RolloutServiceAsyncStub", timeout: timedelta) -> None:
        """`timeout`: for one generation, and for unloading a policy."""
        self._stub = stub
        self._timeout = timeout.total_seconds()

    async def load(self, name: str, source: str, policy_id: str) -> Policy:
        # A new id per load: a policy that was lost is loaded anew, not looked up.
        request = pb.LoadPolicyRequest(
            request_id=new_id("load"), name=name, source=source, expected_policy_id=policy_id
        )
        with rpc_errors():
            return convert.policy_from_proto((await self._stub.LoadPolicy(request)).policy)

    async def get(self, name: str) -> Policy:
        with rpc_errors():
            return convert.policy_from_proto((await self._stub.GetPolicy(pb.GetPolicyRequest(name=name))).policy)

    async def unload(self, name: str) -> None:
        with rpc_errors():
            await self._stub.UnloadPolicy(pb.UnloadPolicyRequest(name=name), timeout=self._timeout)

    async def generate(self, name: str, policy_id: str, prompt: Prompt, sampling: Sampling) -> Generation:
        request = convert.generate_request_to_proto(name, policy_id, prompt, sampling)
        with rpc_errors():
            return convert.generation_from_proto(await self._stub.Generate(request, timeout=self._timeout))

    async def stream(self, name: str, policy_id: str, prompt: Prompt, sampling: Sampling) -> AsyncGenerator[Delta]:
        request = pb.GenerateStreamRequest(request=convert.generate_request_to_proto(name, policy_id, prompt, sampling))
        call = self._stub.GenerateStream(request, timeout=self._timeout)
        try:
            with rpc_errors():
                async for message in call:
                    yield convert.delta_from_proto(message)
        finally:
            call.cancel()
