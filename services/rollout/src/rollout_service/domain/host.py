"""One policy's engine over its life: it is started, watched, given new weights, restarted when it dies, stopped."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

from ratchet_kit.errors import DataLoss, FailedPrecondition, Internal, RatchetError, Unavailable
from ratchet_kit.gpus import LOOK, GpuWatch
from ratchet_kit.logs import get_logger
from ratchet_kit.permanent import is_permanent
from ratchet_kit.retry import patiently
from ratchet_kit.work import surviving
from ratchet_policies import EngineUsage
from rollout_service.domain.generation import EngineOutput, Generation, GenerationRequest
from rollout_service.domain.policy import Death, Policy, PolicyId, State
from rollout_service.domain.ports import KeptPolicy, ModelFolder, PolicyEngine, Ports
from rollout_service.domain.read_write_lock import ReadWriteLock
from rollout_service.domain.weights import (
    Chunk,
    LoadedWeights,
    TensorHeader,
    WeightStream,
    WeightUpdate,
    WeightUpdateResult,
)

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RestartLimits:
    """When a policy is given up."""

    deaths: int = 5
    """Deaths in a row that are tolerated."""
    healthy_after: timedelta = timedelta(seconds=60)
    """An engine that ran longer than this starts a new row when it dies."""
    delay: timedelta = timedelta(seconds=1)
    """Before the second restart in a row. The first is immediate, each later one waits twice as long."""
    fetch: timedelta = timedelta(minutes=5)
    """How long weights are tried again that cannot be fetched now: their store is away, a disk is full."""


class PolicyHost:
    """Owns one policy, its engine, and the model folder that the engine is loaded from, also after a restart."""

    def __init__(self, policy: Policy, source: str, ports: Ports, limits: RestartLimits) -> None:
        self.policy = policy
        self._source = source
        self._ports = ports
        self._limits = limits
        self._weights = ReadWriteLock()
        self._engine: PolicyEngine | None = None
        self._model: ModelFolder | None = None
        self._running: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        self._asleep = False
        self._needed = asyncio.Event()
        """Since it was put to sleep."""
        self._started: float | None = None
        """The time since which the present engine has its GPUs; None without one."""
        self._spent = EngineUsage()
        """By the engines before it; the tokens, of all."""
        self._gpus = GpuWatch(ports.gpu_use)
        self.sequences = 0
        """Completions in progress or waiting."""
        self.used = ports.clock.now()
        """When somebody needed it last."""

    @property
    def usage(self) -> EngineUsage:
        """Since the policy was loaded."""
        cpu_time = self._engine.cpu_time if self._engine else timedelta()
        held = timedelta(seconds=time.monotonic() - self._started) if self._started else timedelta()
        return EngineUsage(
            self._spent.gpu_time + len(self.policy.devices) * held,
            self._spent.cpu_time + cpu_time,
            self._spent.tokens,
            self._spent.gpu_busy_time + self._gpus.busy_time,
            self._spent.gpu_watched_time + self._gpus.watched_time,
        )

    @property
    def seen(self) -> Policy:
        """The policy with its usage until now."""
        return replace(self.policy, usage=self.usage)

    def touch(self) -> None:
        """It is in use."""
        self.used = self._ports.clock.now()

    def start(self) -> None:
        """Starts to load and returns at once. `stop` ends what this starts."""
        self._running = asyncio.create_task(self._run(), name=f"policy {self.policy.name}")

    async def stop(self) -> None:
        """Returns when the engine and its received files are gone."""
        self.policy = self.policy.unloading()
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        await self._ports.journal.forget(self.policy.name)
        if self._model is not None:
            await self._ports.folders.release(self._model)
            self._model = None

    async def settled(self) -> Policy:
        """Waits until the first load has ended: the policy is READY or FAILED."""
        await self._settled.wait()
        return self.policy

    async def generate(self, request: GenerationRequest, expected: PolicyId | None) -> Generation:
        """All completions of one prompt.

        Raises FailedPrecondition when other weights than `expected` are loaded, InvalidArgument, Unavailable.
        """
        started = time.monotonic()
        with self._busy(request):
            async with self._reading():
                policy_id, engine = self._serving(expected)
                async with aclosing(engine.generate(request, stream=False)) as outputs:
                    output = await anext(outputs)
                self._unchanged(policy_id)
        seconds = time.monotonic() - started
        tokens = sum(len(completion.token_ids) for completion in output.completions)
        self._count_tokens(len(output.prompt_token_ids) + tokens)
        self._ports.meter.generated(self.policy.name, len(output.prompt_token_ids), tokens, seconds)
        return Generation(
            output.completions, output.prompt_token_ids, policy_id, timedelta(seconds=seconds), output.echo
        )

    async def stream(
        self, request: GenerationRequest, expected: PolicyId | None
    ) -> AsyncGenerator[tuple[EngineOutput, PolicyId], None]:
        """The same, in pieces. Each piece comes with the id of the weights that made it."""
        started = time.monotonic()
        prompt_tokens = tokens = 0
        with self._busy(request):
            async with self._reading():
                policy_id, engine = self._serving(expected)
                async with aclosing(engine.generate(request, stream=True)) as outputs:
                    async for output in outputs:
                        made = sum(len(completion.token_ids) for completion in output.completions)
                        self._count_tokens(made if prompt_tokens else made + len(output.prompt_token_ids))
                        prompt_tokens = len(output.prompt_token_ids)
                        tokens += made
                        yield output, policy_id
                self._unchanged(policy_id)
        self._ports.meter.generated(self.policy.name, prompt_tokens, tokens, time.monotonic() - started)

    async def sleep(self) -> None:
        """The engine frees its GPUs once nothing generates, until somebody needs it.

        Raises FailedPrecondition where it cannot sleep, Unavailable.
        """
        if not self.policy.options.sleeps:
            raise FailedPrecondition(f"policy {self.policy.name} was not loaded with options.sleeps")
        await asyncio.shield(asyncio.create_task(self._set_asleep(asleep=True)))

    async def _set_asleep(self, *, asleep: bool) -> None:
        """Shielded: when the caller cancels, it must be known how the engine is."""
        async with self._weights.writing():
            self.policy.serving_id()
            if self._asleep == asleep:
                return
            _, engine = self._serving(None)
            started = time.monotonic()
            try:
                await (engine.sleep() if asleep else engine.wake())
            except Internal as error:
                await engine.stop()  # half asleep it would answer nobody, or with memory that is not its own
                change = "sleep" if asleep else "wake"
                raise Unavailable(f"the engine did not {change}, and is started again: {error.message}") from error
            self._needed.clear()
            self._asleep = asleep
            seconds = round(time.monotonic() - started, 3)
            log.info("engine.asleep_set", policy=self.policy.name, asleep=asleep, seconds=seconds)

    async def _awake(self) -> None:
        if self._asleep:
            self._needed.set()
            await asyncio.shield(asyncio.create_task(self._set_asleep(asleep=False)))

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[None]:
        await self._awake()
        async with self._weights.reading():
            if self._asleep:
                raise Unavailable(f"policy {self.policy.name} was put to sleep")
            yield

    async def update(self, update: WeightUpdate, weights: WeightStream) -> WeightUpdateResult:
        """Receives all weights, compares their hash with the announced policy id, then gives them to the engine.

        Raises DataLoss when the hash differs (the old weights are still served) or when the engine does not compute
        with the new weights (the policy is then FAILED), FailedPrecondition (also when they are changes of others than
        the policy has), InvalidArgument, Unavailable.
        """
        self.policy.serving_id()
        base = self._model
        if base is None:
            raise Unavailable(f"policy {self.policy.name} is loading")
        if update.base is not None and update.base != base.policy_id:
            raise FailedPrecondition(
                f"policy {self.policy.name} has the weights {base.policy_id}, not {update.base}, of which these are"
                " changes: send them whole"
            )
        started = time.monotonic()
        counted = _Counted(weights)
        received = await self._ports.folders.receive(base, counted, changes=update.base is not None)
        if received.policy_id != update.policy_id:
            await self._ports.folders.release(received)
            raise DataLoss(
                f"the weights received for policy {self.policy.name} have the hash {received.policy_id}, not the"
                f" announced {update.policy_id}; the old weights are still served"
            )
        receive_seconds = time.monotonic() - started
        # Shielded: when the caller cancels, the engine must not be left half loaded.
        loaded, load_seconds = await asyncio.shield(asyncio.create_task(self._replace(received, update.interrupts)))
        prepare_seconds = time.monotonic() - started - receive_seconds - load_seconds
        result = WeightUpdateResult(
            self.policy,
            received.size_bytes,
            counted.size_bytes,
            timedelta(seconds=receive_seconds),
            timedelta(seconds=prepare_seconds),
            timedelta(seconds=load_seconds),
            loaded.probe_error,
        )
        self._ports.meter.updated(result)
        log.info(
            "weights.replaced",
            policy=self.policy.name,
            policy_id=update.policy_id,
            step=update.step,
            received_bytes=counted.size_bytes,
            receive_seconds=round(receive_seconds, 3),
            prepare_seconds=round(prepare_seconds, 3),
            load_seconds=round(load_seconds, 3),
            in_place=loaded.in_place,
            probe_error=loaded.probe_error,
        )
        return result

    async def _replace(self, received: ModelFolder, interrupts: bool) -> tuple[LoadedWeights, float]:
        """Gives the engine the new weights while nothing generates, for so many seconds. A later restart loads these
        weights."""
        unused = received
        try:
            await self._awake()
            _, engine = self._serving(None)
            await engine.prepare(received)
            started = time.monotonic()
            breaking = asyncio.create_task(engine.interrupt()) if interrupts else None  # begins once nothing new does
            async with self._weights.writing():
                if breaking is not None:
                    await breaking
                _, engine = self._serving(None)
                try:
                    loaded = await engine.load_weights(received)
                except DataLoss as error:
                    await self._fail(error)
                    await engine.stop()
                    raise
                self.policy = self.policy.updated(received.policy_id)
                if self._model is not None:
                    unused = self._model
                self._model = received
                await self._keep(received)
            seconds = time.monotonic() - started
        finally:
            await self._ports.folders.release(unused)
        return loaded, seconds

    @contextmanager
    def _busy(self, request: GenerationRequest) -> Iterator[None]:
        self.touch()
        self._count(request.sampling.n)
        try:
            yield
        finally:
            self.touch()
            self._count(-request.sampling.n)

    def _count_tokens(self, tokens: int) -> None:
        self._spent = replace(self._spent, tokens=self._spent.tokens + tokens)

    def _count(self, sequences: int) -> None:
        self.sequences += sequences
        self._ports.meter.busy(self.policy.name, self.sequences)

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

    async def _run(self) -> None:
        try:
            self._model = await self._fetch()
            await self._recovered(self._model)
            await self._serve_until_failed()
        except RatchetError as error:
            await self._fail(error)
        except Exception:
            log.exception("policy.crashed", policy=self.policy.name)
            await self._fail(Internal("the rollout service failed while it ran this policy; see its log"))
        finally:
            self._settled.set()

    async def _recovered(self, model: ModelFolder) -> None:
        """Waits until a policy of a killed service is needed, where it may have slept: a trainer has its GPUs then."""
        reason, info = self.policy.restart_reason, self.policy.engine
        if reason and info and self.policy.options.sleeps:
            self._asleep = True
            self.policy = self.policy.ready(model.policy_id, info, self._ports.clock.now(), model.settings_id)
            self._settled.set()
            await self._needed.wait()
            self.policy = self.policy.restarting(reason)

    async def _fetch(self) -> ModelFolder:
        model = await patiently(
            lambda: self._ports.folders.fetch(self._source), self._limits.fetch, f"fetch {self._source}"
        )
        expected = self.policy.policy_id or self.policy.expected_policy_id
        if expected is not None and model.policy_id != expected:
            raise DataLoss(f"the weights at {self._source} have the hash {model.policy_id}, not {expected}")
        return model

    async def _fail(self, error: RatchetError) -> None:
        self.policy = self.policy.failed(error)
        log.error("policy.failed", policy=self.policy.name, reason=error.message)
        await self._ports.journal.forget(self.policy.name)

    async def _keep(self, model: ModelFolder) -> None:
        await self._ports.journal.keep(KeptPolicy(self.policy, str(model.path)))

    async def _serve_until_failed(self) -> None:
        deaths = 0
        while True:
            started = time.monotonic()
            try:
                death = await self._serve_once()
            except RatchetError as error:
                if deaths == 0 or is_permanent(error):  # it never came up, or never will again
                    raise
                death = Death(error.message)
            if self.policy.state is State.FAILED:
                return
            self._ports.meter.engine_died(self.policy.name, death.hung)
            lived = timedelta(seconds=time.monotonic() - started)
            deaths = 1 if lived > self._limits.healthy_after else deaths + 1
            if deaths > self._limits.deaths:
                raise Unavailable(f"{death.reason}; it died {deaths} times in a row")
            log.warning("engine.died", policy=self.policy.name, reason=death.reason, deaths=deaths)
            if self._asleep:  # its GPUs are somebody else's: another engine would take their memory
                await self._needed.wait()
            self.policy = self.policy.restarting(death.reason)
            if deaths > 1:
                await asyncio.sleep(self._limits.delay.total_seconds() * 2 ** (deaths - 2))

    async def _serve_once(self) -> Death:
        """Runs one engine with the current weights until it dies or hangs."""
        assert self._model is not None
        model = self._model
        policy = self.policy
        self._started = time.monotonic()
        watching = asyncio.create_task(self._watch(policy.devices))
        try:
            engine = await self._ports.engines.start(policy.name, model, policy.options, policy.devices)
            try:
                self._engine, self._asleep = engine, False
                self.policy = self.policy.ready(
                    model.policy_id, engine.info, self._ports.clock.now(), model.settings_id
                )
                await self._keep(model)
                self._settled.set()
                log.info(
                    "policy.ready",
                    policy=self.policy.name,
                    policy_id=model.policy_id,
                    library=engine.info.library,
                    kv_cache_tokens=engine.info.kv_cache_tokens,
                )
                return await engine.died()
            finally:
                self._engine = None
                await engine.stop()
                self._spent = replace(self._spent, cpu_time=self._spent.cpu_time + engine.cpu_time)
        finally:
            watching.cancel()
            self._spent, self._started, self._gpus = self.usage, None, GpuWatch(self._ports.gpu_use)

    async def _watch(self, devices: Sequence[str]) -> None:
        watch = self._gpus
        while devices:
            with surviving("gpus", policy=self.policy.name):
                await asyncio.to_thread(watch.look, devices)
            await asyncio.sleep(LOOK.total_seconds())


class _Counted:
    """A stream, and how much has come of it."""

    def __init__(self, weights: WeightStream) -> None:
        self._weights = weights
        self.size_bytes = 0

    def __aiter__(self) -> WeightStream:
        return self

    async def __anext__(self) -> TensorHeader | Chunk:
        part = await anext(self._weights)
        if isinstance(part, Chunk):
            self.size_bytes += len(part.data)
        return part
