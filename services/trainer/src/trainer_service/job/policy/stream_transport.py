"""Weights as a stream of gRPC messages, whole or as changes, which rollout-service writes to its disk and loads.

The other half is rollout-service's: `convert.weight_update_from_proto` reads the stream, `adapters/folders.py` writes
and hashes it, the engine loads the folder or applies its changes in place (`adapters/vllm/patch.py`), and a probe
compares.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from itertools import islice
from typing import Protocol

from ratchet.rollout.v1 import rollout_pb2
from ratchet_kit import safetensors
from ratchet_kit.policy_id import Tensor
from ratchet_policies import tensor_changes
from trainer_service.job.policy import deadlines
from trainer_service.job.policy.transport import AT_ONCE, Weights, WeightSync

CHUNK_BYTES = 256 << 10
"""Larger ones are pages that the kernel gives and takes for each of their copies: 4 MiB take six times the processor
time (`python -m tests.bench.weights_travel --road`)."""


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

        def messages_for(has: str) -> AsyncIterator[rollout_pb2.UpdateWeightsRequest]:
            header = rollout_pb2.UpdateWeightsHeader(
                policy=policy, policy_id=weights.policy_id, step=step, interrupts=self._interrupts
            )
            return messages(header, weights, base if base is not None and base.policy_id == has else None)

        replies = await self._receiver.update(policy, messages_for, timeout)
        shown = [reply.policy.policy_id for reply in replies]
        return WeightSync(
            next((other for other in shown if other != weights.policy_id), weights.policy_id),
            sum(reply.received_bytes for reply in replies),
            max(reply.probe_error for reply in replies),
            {
                "prepare": max(reply.prepare_duration.ToTimedelta().total_seconds() for reply in replies),
                "pause": max(reply.load_duration.ToTimedelta().total_seconds() for reply in replies),
            },
        )


async def messages(
    header: rollout_pb2.UpdateWeightsHeader, weights: Weights, base: Weights | None
) -> AsyncIterator[rollout_pb2.UpdateWeightsRequest]:
    """The stream of UpdateWeights: header, then each tensor's header and its bytes, or changes, in chunks."""
    if base is not None:
        header.base_policy_id = base.policy_id
    yield rollout_pb2.UpdateWeightsRequest(header=header)
    known = base.hashes if base is not None else {}
    differ = [one for name, one in weights.tensors.items() if known.get(name) != weights.hashes[name]]
    async with aclosing(_encoded(differ, base)) as encoded:
        async for tensor, changes in encoded:
            yield rollout_pb2.UpdateWeightsRequest(
                tensor=rollout_pb2.TensorHeader(
                    name=tensor.name,
                    dtype=tensor.dtype,
                    shape=tensor.shape,
                    sha256=weights.hashes[tensor.name],
                    changes=changes is not None,
                )
            )
            view = memoryview(tensor.data if changes is None else changes)
            for start in range(0, len(view), CHUNK_BYTES):
                yield rollout_pb2.UpdateWeightsRequest(chunk=bytes(view[start : start + CHUNK_BYTES]))


async def _encoded(tensors: Sequence[Tensor], base: Weights | None) -> AsyncGenerator[tuple[Tensor, bytes | None]]:
    """Each tensor with its changes, None where it is sent whole. Several are encoded while one is sent."""

    def changes_of(tensor: Tensor) -> bytes | None:
        before = base.tensors.get(tensor.name) if base is not None else None
        if before is None or (before.dtype, before.shape) != (tensor.dtype, tensor.shape):
            return None
        return tensor_changes.encode(before.data, tensor.data, safetensors.WIDTHS[tensor.dtype])

    rest, ahead = iter(tensors), deque[tuple[Tensor, asyncio.Task[bytes | None]]]()
    try:
        while True:
            for tensor in islice(rest, AT_ONCE - len(ahead)):
                ahead.append((tensor, asyncio.create_task(asyncio.to_thread(changes_of, tensor))))
            if not ahead:
                return
            tensor, changes = ahead.popleft()
            yield tensor, await changes
    finally:
        for _, changes in ahead:
            changes.cancel()
