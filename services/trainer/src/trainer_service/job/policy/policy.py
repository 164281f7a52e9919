"""The weights of the run's policy in rollout-service. Loading it and generating with it is `ratchet_policies`'."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from ratchet.rollout.v1 import rollout_pb2
from ratchet_kit import policy_id, safetensors
from ratchet_kit.errors import DataLoss, FailedPrecondition, NotFound, Unavailable
from ratchet_kit.policy_id import Tensor
from ratchet_kit.retry import patiently
from ratchet_policies import (
    Generation,
    PolicyEngine,
    PolicySpec,
    PolicyState,
    Purpose,
    Sampling,
    TokenPrompt,
    ensure_ready,
    tensor_changes,
    unload,
)
from ratchet_policies.fleet import Fleet
from trainer_service.job.policy import deadlines
from trainer_service.job.run.config import JobConfig

CHUNK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Weights:
    """All tensors of a policy, by name, each hashed once."""

    tensors: Mapping[str, Tensor]
    hashes: Mapping[str, str]
    """sha256 in hex."""
    policy_id: str

    @classmethod
    def of(cls, tensors: Sequence[Tensor]) -> "Weights":
        hashes = {tensor.name: hashlib.sha256(tensor.data).hexdigest() for tensor in tensors}
        lines = ((one.name, one.dtype, one.shape, hashes[one.name]) for one in tensors)
        return cls({tensor.name: tensor for tensor in tensors}, hashes, policy_id.of_hashes(lines))

    @property
    def size_bytes(self) -> int:
        return sum(len(tensor.data) for tensor in self.tensors.values())


@dataclass(frozen=True, slots=True)
class WeightSync:
    """One successful transfer of weights."""

    policy_id: str
    sent_bytes: int
    """Fewer than the weights have where changes were sent."""
    probe_error: float
    """Largest relative difference between what the engine computes and what the sent weights give."""


class WeightsEngine(PolicyEngine, Protocol):
    """Takes weights, too."""

    async def update(
        self, name: str, messages: AsyncIterator[rollout_pb2.UpdateWeightsRequest], timeout: float
    ) -> rollout_pb2.UpdateWeightsResponse:
        """UpdateWeights of rollout-service within `timeout` seconds; raises what it says."""
        ...


def rollouts(job: JobConfig) -> Fleet:
    """The engines that the job generates with. A context manager."""
    hyper = job.spec.hyperparameters
    generate_timeout = deadlines.generation(hyper, waiting=hyper.samples)
    return Fleet.of(job.rollout_target, generate_timeout=generate_timeout, unload_timeout=deadlines.LEAST)


class RunPolicy:
    """The policy of one run. Transient errors are retried for `patience`, then raised."""

    def __init__(
        self,
        engine: WeightsEngine,
        spec: PolicySpec,
        patience: timedelta,
        at_once: int = 64,
        load_timeout: timedelta = deadlines.LEAST,
    ) -> None:
        """`at_once`: prompts that are with the engine at a time; the others wait here, where no deadline runs."""
        self._engine = engine
        self._spec = spec
        self._patience = patience
        self._turns = asyncio.Semaphore(at_once)
        self._load_timeout = load_timeout

    @classmethod
    def of(cls, job: JobConfig, engine: WeightsEngine) -> "RunPolicy":
        spec = PolicySpec(
            name=job.policy,
            source=job.base_uri,
            dtype=job.dtype,
            max_model_len=job.spec.hyperparameters.max_tokens,
            purpose=Purpose.TRAINING,
        )
        return cls(
            engine,
            spec,
            job.patience,
            job.spec.hyperparameters.samples,
            deadlines.weights(size_of_weights(job.base_path)),
        )

    async def ensure_loaded(self) -> None:
        """Returns when the policy is READY; loads it from its source when it is missing or has failed, twice at most.

        Raises what `ratchet_policies.ensure_ready` raises.
        """
        await ensure_ready(self._engine, self._spec, loads=2, timeout=self._load_timeout, patience=self._patience)

    async def loaded_weights(self) -> str | None:
        """The id of the weights that the policy has; None when it is gone, failed or not ready."""
        try:
            policy = await self._engine.get(self._spec.name)
        except NotFound:
            return None
        return policy.policy_id if policy.state is PolicyState.READY else None

    async def generate(self, prompt: Sequence[int], sampling: Sampling, policy_id: str) -> Generation:
        """Completions of `prompt` (token ids) made by exactly the weights `policy_id`.

        Raises:
            NotFound: rollout-service lost the policy; load it and push the weights again.
            FailedPrecondition: the policy has failed, or has other weights.
            Unavailable and the other transient errors: for longer than the patience.
        """
        name, tokens = self._spec.name, TokenPrompt(tuple(prompt))
        async with self._turns:
            return await patiently(
                lambda: self._engine.generate(name, policy_id, tokens, sampling), self._patience, "generate"
            )

    async def push(self, weights: Weights, step: int, base: Weights | None = None) -> WeightSync:
        """Replaces the policy's weights, loading the policy first when it is gone. `base`: those that were pushed last.
        What changed since is sent, or all, where the policy does not have these or cannot make the new ones of them.

        Raises:
            DataLoss: the engine does not show the weights that were sent.
            Unavailable and the other transient errors: for longer than the patience.
        """
        timeout = deadlines.weights(weights.size_bytes).total_seconds()
        known = base

        async def send() -> rollout_pb2.UpdateWeightsResponse:
            nonlocal known
            sent, known = known, None  # whatever goes wrong, the next try is whole
            messages = _messages(self._spec.name, step, weights, sent)
            try:
                return await self._engine.update(self._spec.name, messages, timeout)
            except DataLoss as error:
                if sent is None:
                    raise
                raise Unavailable(f"the changes did not arrive: {error.message}") from error
            except (NotFound, FailedPrecondition) as error:
                await self.ensure_loaded()
                raise Unavailable(f"the policy was not there: {error.message}") from error

        reply = await patiently(send, self._patience, "push weights")
        if reply.policy.policy_id != weights.policy_id:
            raise DataLoss(
                f"rollout-service reports weights {reply.policy.policy_id} after it was sent {weights.policy_id}"
            )
        return WeightSync(weights.policy_id, reply.received_bytes, reply.probe_error)

    async def unload(self) -> None:
        """Frees the engine; a policy that is not there is no error."""
        await unload(self._engine, self._spec.name)


def size_of_weights(folder: str) -> int:
    """Bytes of the weights in a model's folder."""
    return sum(file.stat().st_size for file in Path(folder).glob("*.safetensors"))


async def _messages(
    policy: str, step: int, weights: Weights, base: Weights | None
) -> AsyncIterator[rollout_pb2.UpdateWeightsRequest]:
    """The stream of UpdateWeights: header, then each tensor's header and its bytes, or changes, in chunks."""
    header = rollout_pb2.UpdateWeightsHeader(policy=policy, policy_id=weights.policy_id, step=step)
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
