"""A run's policy in rollout-service: the weights that it has and gets, and generation, with patience."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Protocol

from ratchet_kit.errors import DataLoss, FailedPrecondition, NotFound, RatchetError, Unavailable
from ratchet_kit.retry import patiently
from ratchet_policies import (
    EngineShare,
    Generation,
    PolicyEngine,
    PolicySpec,
    PolicyState,
    Prompt,
    Purpose,
    Sampling,
    ensure_ready,
    unload,
)
from ratchet_policies.fleet import Fleet
from trainer_service.job.policy import deadlines
from trainer_service.job.policy.stream_transport import StreamTransport
from trainer_service.job.policy.transport import Weights, WeightSync, WeightTransport, size_of_weights
from trainer_service.job.run.config import JobConfig


def rollouts(job: JobConfig) -> Fleet:
    """The engines that the job generates with. A context manager."""
    hyper = job.spec.hyperparameters
    generate_timeout = deadlines.generation(hyper, waiting=hyper.samples * max(1, hyper.max_staleness or 0))
    return Fleet.of(job.rollout_target, generate_timeout=generate_timeout, unload_timeout=deadlines.LEAST)


class Engines(PolicyEngine, Protocol):
    """Has a policy on several nodes, too."""

    async def keep(self, spec: PolicySpec, replicas: int) -> None:
        """See `Fleet.keep`."""
        ...

    async def sleep(self, name: str) -> None:
        """See `Fleet.sleep`."""
        ...


class RunPolicy:
    """The policy of one run. Transient errors are retried for `patience`, then raised."""

    def __init__(
        self,
        engine: Engines,
        transport: WeightTransport,
        spec: PolicySpec,
        patience: timedelta,
        at_once: int = 64,
        load_timeout: timedelta = deadlines.LEAST,
        engines: int = 1,
    ) -> None:
        """`at_once`: prompts that are with the engines at a time; the others wait here, where no deadline runs.
        `engines`: nodes that shall have the policy."""
        self._engine = engine
        self._transport = transport
        self._spec = spec
        self._patience = patience
        self._turns = asyncio.Semaphore(at_once)
        self._looking = asyncio.Lock()
        self._load_timeout = load_timeout
        self.engines = engines
        self.share = EngineShare()
        """The usage of the engine for the run."""

    @classmethod
    def of(cls, job: JobConfig, engine: Fleet) -> "RunPolicy":
        spec = PolicySpec(
            name=job.policy,
            source=job.base_uri,
            dtype=job.dtype,
            max_model_len=job.spec.hyperparameters.max_tokens,
            purpose=Purpose.TRAINING,
            sleeps=job.spec.resources.shares_gpu,
            model=job.spec.engine_model,
        )
        return cls(
            engine,
            StreamTransport(engine, job.interrupts),
            spec,
            job.patience,
            job.spec.hyperparameters.samples,
            deadlines.weights(size_of_weights(job.base_path)),
            job.spec.resources.engines or 1,
        )

    async def ensure_loaded(self) -> None:
        """Returns when the policy is READY on one engine; loads it from its source when it is missing or has failed.
        The others of its engines are started: each generates from the weights on that it is sent once it is READY.

        Raises what `ratchet_policies.ensure_ready` raises.
        """
        await ensure_ready(self._engine, self._spec, timeout=self._load_timeout, patience=self._patience)
        await self._keep()

    async def loaded_weights(self) -> str | None:
        """The id of the weights that the policy has; None when it is gone, failed or not ready."""
        try:
            policy = await self._engine.get(self._spec.name)
        except NotFound:
            return None
        return policy.policy_id if policy.state is PolicyState.READY else None

    async def generate(self, prompt: Prompt, sampling: Sampling, policy_id: str) -> Generation:
        """Completions of `prompt` made by exactly the weights `policy_id`.

        Raises:
            NotFound: rollout-service lost the policy; load it and push the weights again.
            FailedPrecondition: the policy has failed, or has other weights.
            Unavailable and the other transient errors: for longer than the patience.
        """
        name = self._spec.name
        async with self._turns:
            generation = await patiently(
                lambda: self._engine.generate(name, policy_id, prompt, sampling), self._patience, "generate"
            )
        self.share.made(generation.prompt_tokens, sum(len(one.token_ids) for one in generation.completions))
        return generation

    async def sleep(self) -> None:
        """Its GPUs are free from now on: new weights wake it. One that is gone, or has failed, holds none. Raises the
        transient errors for longer than the patience."""
        try:
            await patiently(lambda: self._engine.sleep(self._spec.name), self._patience, "sleep")
        except NotFound:
            return
        except FailedPrecondition:
            if await self.loaded_weights() is not None:
                raise

    async def look(self) -> None:
        """Brings `share` up to date, unless the engine does not answer. One look at a time: of two answers in the wrong
        order the older would count as those of an engine that began anew."""
        async with self._looking:
            with suppress(RatchetError):
                self.share.seen((await self._engine.get(self._spec.name)).usage)

    async def push(self, weights: Weights, step: int, base: Weights | None = None) -> WeightSync:
        """Replaces the policy's weights, loading the policy first when it is gone. `base`: those that were pushed last.
        What changed since is sent, or all, where the policy does not have these or cannot make the new ones of them.

        Raises:
            DataLoss: the engine does not show the weights that were sent.
            Unavailable and the other transient errors: for longer than the patience.
        """
        known = base

        async def send() -> WeightSync:
            nonlocal known
            sent, known = known, None  # whatever goes wrong, the next try is whole
            try:
                return await self._transport.send(self._spec.name, weights, step, sent)
            except DataLoss as error:
                if sent is None:
                    raise
                raise Unavailable(f"the changes did not arrive: {error.message}") from error
            except (NotFound, FailedPrecondition) as error:
                await self.ensure_loaded()
                raise Unavailable(f"the policy was not there: {error.message}") from error

        sync = await patiently(send, self._patience, "push weights")
        await self._keep()  # one that was lost, or refused them, is loaded again
        if sync.policy_id != weights.policy_id:
            raise DataLoss(f"rollout-service reports weights {sync.policy_id} after it was sent {weights.policy_id}")
        return sync

    async def _keep(self) -> None:
        if self.engines > 1:
            await self._engine.keep(self._spec, self.engines)

    async def unload(self) -> None:
        """Frees the engines; a policy that is not there is no error."""
        await self.look()
        await unload(self._engine, self._spec.name)
