"""The run's policy in rollout-service: loaded, fed with new weights, asked for completions."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import grpc

from ratchet.rollout.v1 import rollout_pb2, rollout_pb2_grpc
from ratchet_kit import policy_id
from ratchet_kit.errors import DataLoss, FailedPrecondition, NotFound, Unavailable
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_kit.ids import new_id
from ratchet_kit.retry import patiently
from trainer_service.job.config import JobConfig

CHUNK_BYTES = 4 << 20
POLL = timedelta(milliseconds=250)
# A sync of large weights and a batch of long completions both take minutes on a busy machine.
CALL_DEADLINE = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """How rollout-service loads the policy."""

    name: str
    source: str
    """A folder or URL of a Hugging Face model."""
    dtype: str
    max_model_len: int
    patience: timedelta

    @classmethod
    def of(cls, job: JobConfig) -> "PolicySettings":
        return cls(
            name=job.policy,
            source=job.base_path,
            dtype=job.dtype,
            max_model_len=job.spec.hyperparameters.max_tokens,
            patience=job.patience,
        )


@dataclass(frozen=True, slots=True)
class WeightSync:
    """One successful transfer of weights."""

    policy_id: str
    bytes: int
    seconds: float
    probe_error: float
    """Largest relative difference between what the engine computes and what the sent weights give."""


class PolicyClient:
    """Calls rollout-service for one policy. Transient errors are retried for `settings.patience`, then raised."""

    def __init__(self, channel: grpc.aio.Channel, settings: PolicySettings) -> None:
        self._stub = rollout_pb2_grpc.RolloutServiceStub(channel)
        self._settings = settings

    async def ensure_loaded(self) -> None:
        """Returns when the policy is READY; loads it from its source when it is missing or has failed.

        Raises:
            FailedPrecondition: its engine failed again while loading.
            Unavailable, ResourceExhausted, DeadlineExceeded: for longer than the patience.
        """
        reloads = 0
        end = time.monotonic() + self._settings.patience.total_seconds()
        while True:
            state = await patiently(self._state_or_load, self._settings.patience, "load policy")
            if state.state == rollout_pb2.Policy.STATE_READY:
                return
            if state.state == rollout_pb2.Policy.STATE_FAILED:
                if reloads:
                    raise FailedPrecondition(f"rollout-service could not load {self._settings.source}: {state.error}")
                reloads += 1
                await self.unload()
            if time.monotonic() > end:
                raise Unavailable(f"policy {self._settings.name} was not ready within {self._settings.patience}")
            await asyncio.sleep(POLL.total_seconds())

    async def loaded_weights(self) -> str | None:
        """The id of the weights that the policy has; None when it is gone, failed or not ready."""
        try:
            with rpc_errors():
                reply = await self._stub.GetPolicy(rollout_pb2.GetPolicyRequest(name=self._settings.name), timeout=30)
        except NotFound:
            return None
        return reply.policy.policy_id if reply.policy.state == rollout_pb2.Policy.STATE_READY else None

    async def push(self, tensors: Sequence[policy_id.Tensor], step: int) -> WeightSync:
        """Replaces the policy's weights, loading the policy first when it is gone.

        Raises:
            DataLoss: the engine does not show the weights that were sent.
            Unavailable and the other transient errors: for longer than the patience.
        """
        identity = policy_id.compute(tensors)
        started = time.monotonic()

        async def send() -> rollout_pb2.UpdateWeightsResponse:
            try:
                with rpc_errors():
                    return await self._stub.UpdateWeights(
                        _messages(self._settings.name, identity, step, tensors), timeout=CALL_DEADLINE.total_seconds()
                    )
            except (NotFound, FailedPrecondition) as error:
                await self.ensure_loaded()
                raise Unavailable(f"the policy was not there: {error.message}") from error

        reply = await patiently(send, self._settings.patience, "push weights")
        if reply.policy.policy_id != identity:
            raise DataLoss(f"rollout-service reports weights {reply.policy.policy_id} after it was sent {identity}")
        return WeightSync(identity, reply.bytes, time.monotonic() - started, reply.probe_error)

    async def generate(
        self, prompt: Sequence[int], sampling: rollout_pb2.SamplingParams, expected_policy_id: str
    ) -> rollout_pb2.GenerateResponse:
        """Completions of `prompt` (token ids) made by exactly the weights `expected_policy_id`.

        Raises:
            NotFound: rollout-service lost the policy; load it and push the weights again.
            FailedPrecondition: the policy has failed, or has other weights.
            Unavailable and the other transient errors: for longer than the patience.
        """
        request = rollout_pb2.GenerateRequest(
            policy=self._settings.name,
            tokens=rollout_pb2.TokenPrompt(ids=prompt),
            sampling=sampling,
            expected_policy_id=expected_policy_id,
        )

        async def call() -> rollout_pb2.GenerateResponse:
            with rpc_errors():
                return await self._stub.Generate(request, timeout=CALL_DEADLINE.total_seconds())

        reply = await patiently(call, self._settings.patience, "generate")
        if reply.policy_id != expected_policy_id:
            raise FailedPrecondition(f"a completion came from weights {reply.policy_id}, not {expected_policy_id}")
        return reply

    async def unload(self) -> None:
        """Frees the engine; a policy that is not there is no error."""
        try:
            with rpc_errors():
                await self._stub.UnloadPolicy(
                    rollout_pb2.UnloadPolicyRequest(name=self._settings.name), timeout=CALL_DEADLINE.total_seconds()
                )
        except NotFound:
            pass

    async def _state_or_load(self) -> rollout_pb2.Policy:
        settings = self._settings
        with rpc_errors():
            try:
                reply = await self._stub.GetPolicy(rollout_pb2.GetPolicyRequest(name=settings.name), timeout=30)
                return reply.policy
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.NOT_FOUND:
                    raise
            options = rollout_pb2.EngineOptions(dtype=settings.dtype, max_model_len=settings.max_model_len)
            request = rollout_pb2.LoadPolicyRequest(
                request_id=new_id("load"), name=settings.name, source=settings.source, options=options
            )
            return (await self._stub.LoadPolicy(request, timeout=60)).policy


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
