"""One policy's engine over its life: started, watched, given new weights, started again when it dies, stopped."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta

from ratchet_kit.errors import DataLoss, FailedPrecondition, Internal, RatchetError, Unavailable
from ratchet_kit.logs import get_logger
from ratchet_kit.times import Clock
from rollout_service.domain.gate import Gate
from rollout_service.domain.generation import EngineOutput, Generation, GenerationRequest
from rollout_service.domain.policy import Policy, PolicyId, State
from rollout_service.domain.ports import (
    EngineFactory,
    KeptPolicy,
    Meter,
    ModelFolder,
    ModelFolders,
    PolicyEngine,
    PolicyJournal,
    WeightUpdateMetrics,
)
from rollout_service.domain.weights import LoadedWeights, WeightStream, WeightUpdate, WeightUpdateResult

log = get_logger(__name__)


@dataclass(frozen=True)
class RestartLimits:
    """An engine that dies is started again until it died `deaths` times in a row, each within `healthy_after`."""

    deaths: int = 5
    healthy_after: timedelta = timedelta(seconds=60)
    delay: timedelta = timedelta(seconds=1)
    """Before the second restart in a row; the first is at once, and each further one waits twice as long."""


@dataclass(frozen=True)
class Surroundings:
    """What hosts share."""

    engines: EngineFactory
    folders: ModelFolders
    journal: PolicyJournal
    meter: Meter
    clock: Clock
    limits: RestartLimits


class PolicyHost:
    """Owns one policy, its engine and the model folder that the engine is, or will again be, loaded from."""

    def __init__(self, policy: Policy, folder: str, surroundings: "Surroundings") -> None:
        self.policy = policy
        self._folder = folder
        self._engines = surroundings.engines
        self._folders = surroundings.folders
        self._journal = surroundings.journal
        self._meter = surroundings.meter
        self._clock = surroundings.clock
        self._limits = surroundings.limits
        self._gate = Gate()
        self._engine: PolicyEngine | None = None
        self._model: ModelFolder | None = None
        self._life: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()

    def start(self) -> None:
        """Begins to load; returns at once. `stop` ends what this begins."""
        self._life = asyncio.create_task(self._live(), name=f"policy {self.policy.name}")

    async def stop(self) -> None:
        """Returns when the engine and the files received for it are gone."""
        self.policy = self.policy.unloading()
        if self._life is not None:
            self._life.cancel()
            await asyncio.wait([self._life])
        await self._journal.forget(self.policy.name)
        if self._model is not None:
            await self._folders.release(self._model)
            self._model = None

    async def settled(self) -> Policy:
        """Waits until the first load ended, well or not."""
        await self._settled.wait()
        return self.policy

    async def generate(self, request: GenerationRequest, expected: PolicyId | None) -> Generation:
        """All completions of one prompt.

        Raises FailedPrecondition when other weights than `expected` are loaded, InvalidArgument, Unavailable.
        """
        started = time.monotonic()
        async with self._gate.shared():
            policy_id, engine = self._serving(expected)
            async with aclosing(engine.generate(request, stream=False)) as outputs:
                output = await anext(outputs)
            self._unchanged(policy_id)
        seconds = time.monotonic() - started
        tokens = sum(len(completion.token_ids) for completion in output.completions)
        self._meter.generated(self.policy.name, len(output.prompt_token_ids), tokens, seconds)
        return Generation(output.completions, output.prompt_token_ids, policy_id, timedelta(seconds=seconds))

    async def stream(
        self, request: GenerationRequest, expected: PolicyId | None
    ) -> AsyncGenerator[tuple[EngineOutput, PolicyId], None]:
        """The same in pieces, each with the id of the weights that made it."""
        started = time.monotonic()
        prompt_tokens = tokens = 0
        async with self._gate.shared():
            policy_id, engine = self._serving(expected)
            async with aclosing(engine.generate(request, stream=True)) as outputs:
                async for output in outputs:
                    prompt_tokens = len(output.prompt_token_ids)
                    tokens += sum(len(completion.token_ids) for completion in output.completions)
                    yield output, policy_id
            self._unchanged(policy_id)
        self._meter.generated(self.policy.name, prompt_tokens, tokens, time.monotonic() - started)

    async def update(self, update: WeightUpdate, weights: WeightStream) -> WeightUpdateResult:
        """Replaces the weights once they are all here and hash to what was announced.

        Raises DataLoss when they do not (the old weights go on being served) or when the engine does not show them
        (the policy is FAILED then), FailedPrecondition, InvalidArgument, Unavailable.
        """
        self.policy.serving_id()
        base = self._model
        if base is None:
            raise Unavailable(f"policy {self.policy.name} is loading")
        started = time.monotonic()
        received = await self._folders.receive(base, weights)
        receive_seconds = time.monotonic() - started
        if received.policy_id != update.policy_id:
            await self._folders.release(received)
            raise DataLoss(
                f"the weights received for policy {self.policy.name} hash to {received.policy_id}, not to the"
                f" announced {update.policy_id}; the old ones are still served"
            )
        started = time.monotonic()
        # A caller that goes away must not leave an engine half loaded: the load is shielded from its cancellation.
        loaded = await asyncio.shield(asyncio.create_task(self._replace(received)))
        load_seconds = time.monotonic() - started
        self._meter.updated(
            self.policy.name,
            WeightUpdateMetrics(received.bytes, receive_seconds, load_seconds, loaded.probe_error),
        )
        log.info(
            "weights replaced",
            policy=self.policy.name,
            policy_id=update.policy_id,
            step=update.step,
            receive_seconds=round(receive_seconds, 3),
            load_seconds=round(load_seconds, 3),
            probe_error=loaded.probe_error,
        )
        return WeightUpdateResult(
            self.policy,
            received.bytes,
            timedelta(seconds=receive_seconds),
            timedelta(seconds=load_seconds),
            loaded.probe_error,
        )

    async def _replace(self, received: ModelFolder) -> LoadedWeights:
        """Gives the engine new weights while nothing generates; from then on a restart loads these."""
        unused = received
        try:
            async with self._gate.alone():
                _, engine = self._serving(None)
                try:
                    loaded = await engine.load_weights(received)
                except DataLoss as e:
                    await self._fail(e)
                    await engine.stop()
                    raise
                self.policy = self.policy.updated(received.policy_id)
                if self._model is not None:
                    unused = self._model
                self._model = received
                await self._keep(received)
        finally:
            await self._folders.release(unused)
        return loaded

    def _serving(self, expected: PolicyId | None) -> tuple[PolicyId, PolicyEngine]:
        policy_id = self.policy.serving_id()
        if expected is not None and expected != policy_id:
            raise FailedPrecondition(f"policy {self.policy.name} serves {policy_id}, not the expected {expected}")
        if self._engine is None:
            raise Unavailable(f"policy {self.policy.name} is loading")
        return policy_id, self._engine

    def _unchanged(self, policy_id: PolicyId) -> None:
        if self.policy.policy_id != policy_id:
            raise FailedPrecondition(f"the weights of policy {self.policy.name} changed while it generated")

    async def _live(self) -> None:
        try:
            self._model = await self._fetch()
            await self._serve_until_failed()
        except RatchetError as e:
            await self._fail(e)
        except Exception:
            log.exception("policy failed in a way that nobody thought of", policy=self.policy.name)
            await self._fail(Internal("the rollout service failed while it ran this policy; its log says how"))
        finally:
            self._settled.set()

    async def _fetch(self) -> ModelFolder:
        model = await self._folders.fetch(self._folder)
        expected = self.policy.policy_id or self.policy.expected_policy_id
        if expected is not None and model.policy_id != expected:
            raise DataLoss(f"the weights at {self._folder} hash to {model.policy_id}, not to {expected}")
        return model

    async def _fail(self, error: RatchetError) -> None:
        self.policy = self.policy.failed(error.message)
        log.error("policy failed", policy=self.policy.name, error=error.message)
        await self._journal.forget(self.policy.name)

    async def _keep(self, model: ModelFolder) -> None:
        await self._journal.keep(KeptPolicy(self.policy, str(model.path)))

    async def _serve_until_failed(self) -> None:
        deaths = 0
        while True:
            started = time.monotonic()
            try:
                reason = await self._serve_once()
            except FailedPrecondition as e:
                if deaths == 0:  # never came up: the model or its options are at fault, and would be again
                    raise
                reason = e.message
            if self.policy.state is State.FAILED:
                return
            self._meter.engine_died(self.policy.name)
            lived = timedelta(seconds=time.monotonic() - started)
            deaths = 1 if lived > self._limits.healthy_after else deaths + 1
            if deaths > self._limits.deaths:
                raise Unavailable(f"{reason}; it died {deaths} times in a row")
            self.policy = self.policy.restarting(reason)
            log.warning("engine died", policy=self.policy.name, reason=reason, deaths=deaths)
            if deaths > 1:
                await asyncio.sleep(self._limits.delay.total_seconds() * 2 ** (deaths - 2))

    async def _serve_once(self) -> str:
        """Starts an engine with the present weights and returns how it died."""
        assert self._model is not None
        model = self._model
        engine = await self._engines.start(self.policy.name, model, self.policy.options)
        try:
            self._engine = engine
            self.policy = self.policy.ready(model.policy_id, engine.info, self._clock.now())
            await self._keep(model)
            self._settled.set()
            log.info("policy ready", policy=self.policy.name, policy_id=model.policy_id)
            return await engine.died()
        finally:
            self._engine = None
            await engine.stop()
