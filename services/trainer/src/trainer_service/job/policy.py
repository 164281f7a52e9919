"""The weights of the run's policy in rollout-service. Loading it and generating with it is `ratchet_policies`'."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from ratchet.rollout.v1 import rollout_pb2
from ratchet_kit import policy_id
from ratchet_kit.errors import DataLoss, FailedPrecondition, NotFound, Unavailable
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
    unload,
)
from ratchet_policies.fleet import Fleet
from trainer_service.job import deadlines
from trainer_service.job.config import JobConfig

CHUNK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class WeightSync:
    """One successful transfer of weights."""

    policy_id: str
    size_bytes: int
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
            engine, spec, job.patience, job.spec.hyperparameters.samples, deadlines.weights(_size(job.base_path))
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

    async def push(self, tensors: Sequence[policy_id.Tensor], step: int) -> WeightSync:
        """Replaces the policy's weights, loading the policy first when it is gone.

        Raises:
            DataLoss: the engine does not show the weights that were sent.
            Unavailable and the other transient errors: for longer than the patience.
        """
        identity = policy_id.compute(tensors)
        timeout = deadlines.weights(sum(len(tensor.data) for tensor in tensors)).total_seconds()

        async def send() -> rollout_pb2.UpdateWeightsResponse:
            messages = _messages(self._spec.name, identity, step, tensors)
            try:
                return await self._engine.update(self._spec.name, messages, timeout)
            except (NotFound, FailedPrecondition) as error:
                await self.ensure_loaded()
                raise Unavailable(f"the policy was not there: {error.message}") from error

        reply = await patiently(send, self._patience, "push weights")
        if reply.policy.policy_id != identity:
            raise DataLoss(f"rollout-service reports weights {reply.policy.policy_id} after it was sent {identity}")
        return WeightSync(identity, reply.size_bytes, reply.probe_error)

    async def unload(self) -> None:
        """Frees the engine; a policy that is not there is no error."""
        await unload(self._engine, self._spec.name)


def _size(folder: str) -> int:
    """Bytes of the weights in a model's folder."""
    return sum(file.stat().st_size for file in Path(folder).glob("*.safetensors"))


async def _messages(
    policy: str, identity: str, step: int, tensors: Sequence[policy_id.Tensor]
) -> AsyncIterator[rollout_pb2.UpdateWeightsRequest]:
    """The stream of UpdateWeights: header, then each tensor's header and its bytes in chunks."""
    yield rollout_pb2.UpdateWeightsRequest(
        header=rollout_pb2.UpdateWeightsHeader(policy=policy, policy_id=identity, step=step)
    )
    for tensor in tensors:
        yield rollout_pb2.UpdateWeightsRequest(
            tensor=rollout_pb2.TensorHeader(
                name=tensor.name,
                dtype=tensor.dtype,
                shape=tensor.shape,
                sha256=hashlib.sha256(tensor.data).hexdigest(),
            )
        )
        view = memoryview(tensor.data)
        for start in range(0, len(view), CHUNK_BYTES):
            yield rollout_pb2.UpdateWeightsRequest(chunk=bytes(view[start : start + CHUNK_BYTES]))
