"""Weights as a stream of gRPC messages, whole or as changes, which rollout-service writes to its disk and loads.

The other half is rollout-service's: `convert.weight_update_from_proto` reads the stream, `adapters/folders.py` writes
and hashes it, the engine loads the folder or applies its changes in place (`adapters/vllm/patch.py`), and a probe
compares.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from ratchet.rollout.v1 import rollout_pb2
from ratchet_kit import safetensors
from ratchet_policies import tensor_changes
from trainer_service.job.policy import deadlines
from trainer_service.job.policy.transport import Weights, WeightSync

CHUNK_BYTES = 4 << 20


class WeightsReceiver(Protocol):
    """The engines, as far as they take weights: `ratchet_policies.fleet.Fleet`."""

    async def update(
        self, name: str, messages: Callable[[str], AsyncIterator[rollout_pb2.UpdateWeightsRequest]], timeout: float
    ) -> Sequence[rollout_pb2.UpdateWeightsResponse]:
        """UpdateWeights of each engine that has the policy, within `timeout` seconds, with the messages for one that
        has the weights of a policy id. Raises what it says where no engine takes them."""
        ...


class StreamTransport:
    """See WeightTransport."""

    def __init__(self, receiver: WeightsReceiver, interrupts: bool = False) -> None:
        """`interrupts`: breaks off what the engines generate, instead of waiting for it."""
        self._receiver = receiver
        self._interrupts = interrupts

    async def send(self, policy: str, weights: Weights, step: int, base: Weights | None = None) -> WeightSync:
        timeout = deadlines.weights(weights.size_bytes).total_seconds()

        def messages(has: str) -> AsyncIterator[rollout_pb2.UpdateWeightsRequest]:
            header = rollout_pb2.UpdateWeightsHeader(
                policy=policy, policy_id=weights.policy_id, step=step, interrupts=self._interrupts
            )
            return _messages(header, weights, base if base is not None and base.policy_id == has else None)

        replies = await self._receiver.update(policy, messages, timeout)
        shown = [reply.policy.policy_id for reply in replies]
        return WeightSync(
            next((other for other in shown if other != weights.policy_id), weights.policy_id),
            sum(reply.received_bytes for reply in replies),
            max(reply.probe_error for reply in replies),
        )


async def _messages(
    header: rollout_pb2.UpdateWeightsHeader, weights: Weights, base: Weights | None
) -> AsyncIterator[rollout_pb2.UpdateWeightsRequest]:
    """The stream of UpdateWeights: header, then each tensor's header and its bytes, or changes, in chunks."""
    if base is not None:
        header.base_policy_id = base.policy_id
    yield rollout_pb2.UpdateWeightsRequest(header=header)
    for name, tensor in weights.tensors.items():
        if base is not None and base.hashes.get(name) == weights.hashes[name]:
            continue
        before = base.tensors.get(name) if base is not None else None
        changed = None
        if before is not None and (before.dtype, before.shape) == (tensor.dtype, tensor.shape):
            changed = await asyncio.to_thread(
                tensor_changes.encode, before.data, tensor.data, safetensors.WIDTHS[tensor.dtype]
            )
        yield rollout_pb2.UpdateWeightsRequest(
            tensor=rollout_pb2.TensorHeader(
                name=name,
                dtype=tensor.dtype,
                shape=tensor.shape,
                sha256=weights.hashes[name],
                changes=changed is not None,
            )
        )
        view = memoryview(tensor.data if changed is None else changed)
        for start in range(0, len(view), CHUNK_BYTES):
            yield rollout_pb2.UpdateWeightsRequest(chunk=bytes(view[start : start + CHUNK_BYTES]))
