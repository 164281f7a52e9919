"""Keeps the versions that answer requests loaded in the rollout service."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from gateway_service.domain.ports import ModelRegistry
from ratchet_kit.errors import (
    DataLoss,
    FailedPrecondition,
    RatchetError,
    ResourceExhausted,
    Unavailable,
)
from ratchet_kit.logs import get_logger
from ratchet_kit.names import VersionRef
from ratchet_kit.permanent import PERMANENT, is_permanent
from ratchet_kit.retry import OUTSIDE
from ratchet_kit.times import Clock
from ratchet_kit.work import every
from ratchet_policies import (
    LOST,
    Delta,
    Generation,
    PolicyEngine,
    PolicySpec,
    Prompt,
    Sampling,
    ensure_ready,
    require_whole,
    unload,
    with_recovery,
)

log = get_logger(__name__)

LOST_AGAIN = timedelta(minutes=10)
"""A version that is lost twice within it is at fault itself."""


class ServingEngine(PolicyEngine, Protocol):
    """Policies on all the nodes that there are."""

    def answers(self, name: str, policy_id: str) -> bool:
        """True where one of its engines is ready, and does not fail again and again, as far as is known."""
        ...

    async def keep(self, spec: PolicySpec, replicas: int) -> None:
        """Says that it is in use, and starts to load it on more nodes, up to `replicas`, where these have room."""
        ...


class NotLoaded(Unavailable):
    """The version is being loaded, or what loads it is away: no fault of the version."""


UNLOADABLE: tuple[type[RatchetError], ...] = (*PERMANENT, FailedPrecondition)
"""Errors of a version that no engine takes."""


class Unservable(DataLoss):
    """The version's weights are gone or damaged, or no engine takes them: its fault, and never the caller's."""


@dataclass(frozen=True, slots=True)
class ServingOptions:
    load_wait: timedelta = timedelta(seconds=60)
    """How long a request waits for its version to be loaded."""
    poll: timedelta = timedelta(seconds=0.25)
    """Between two looks at a version that is being loaded."""
    retry_after_failure: timedelta = timedelta(seconds=10)
    """How long a version that failed to load is not tried again."""
    retry_after_permanent_failure: timedelta = timedelta(minutes=1)
    """The same of one that each load would meet, unless rollout-service becomes another."""
    replicas: int = 1
    """Engines of a version, each on a node of its own, as far as nodes have room."""
    in_use: timedelta = timedelta(minutes=1)
    """A version is in use for so long after it was needed last: it stays loaded, and a lost engine is made up."""
    keep_every: timedelta = timedelta(seconds=5)
    """Between two looks at that."""
    start_wait: timedelta = timedelta(seconds=2)
    """For who starts a load, and goes: so long it takes to say that there is no room."""


@dataclass(frozen=True, slots=True)
class _Failure:
    error: RatchetError
    until: datetime


class Serving:
    """The versions that this gateway has seen ready, and one load at a time per version.

    The rollout service decides: when a version is gone there (it restarted, an engine died), it is loaded again. It
    also unloads what nobody needs when there is no room for another; `run` says to it what is in use.
    """

    def __init__(self, engine: ServingEngine, registry: ModelRegistry, clock: Clock, options: ServingOptions) -> None:
        self._engine = engine
        self._registry = registry
        self._clock = clock
        self._options = options
        self._ready: dict[VersionRef, PolicySpec] = {}
        self._loading: dict[VersionRef, asyncio.Task[str]] = {}
        self._failures: dict[VersionRef, _Failure] = {}
        self._used: dict[VersionRef, datetime] = {}
        self._losses: dict[VersionRef, datetime] = {}

    def policy_id(self, ref: VersionRef) -> str | None:
        """The weights of a version that was seen ready; None for another."""
        spec = self._ready.get(ref)
        return spec.policy_id if spec else None

    def answers(self, ref: VersionRef) -> bool:
        """True where an engine of it takes a request now, as far as is known."""
        spec = self._ready.get(ref)
        return spec is not None and self._engine.answers(spec.name, spec.policy_id)

    async def start(self, ref: VersionRef) -> str:
        """The policy id of a version that is ready; empty while it is being loaded. Raises as `ensure`, NotLoaded where
        it is not being loaded."""
        try:
            return await self.ensure(ref, self._options.start_wait)
        except NotLoaded:
            if ref in self._loading:
                return ""
            raise

    def load(self, ref: VersionRef) -> None:
        """Starts to load a version that does not answer, unless that failed lately. Waits for nothing."""
        if ref not in self._loading and not self._recent_failure(ref):
            self._forget(ref)
            self._begin_loading(ref)

    async def run(self, stop: asyncio.Event) -> None:
        await every(self._options.keep_every, stop, self.keep, name="keep versions loaded")

    async def keep(self) -> None:
        """The versions that are in use stay loaded, each on as many nodes as are wanted."""
        limit = self._clock.now() - self._options.in_use
        used = [spec for ref, spec in self._ready.items() if self._used[ref] >= limit]
        await asyncio.gather(*(self._engine.keep(spec, self._options.replicas) for spec in used))

    async def ensure(self, ref: VersionRef, wait: timedelta | None = None) -> str:
        """The policy id of a version that is ready. Loads it first, and waits for up to `wait` (default: load_wait).

        Raises NotLoaded while it is loading, FailedPrecondition when it could not be loaded, InvalidArgument when it
        never can be, NotFound when the registry does not know it, DataLoss when the weights are not those that were
        registered.
        """
        policy_id = self.policy_id(ref)
        if policy_id:
            self._used[ref] = self._clock.now()  # of what is ready only: callers may name any version
            return policy_id
        try:
            return await self._join_loading(ref, self._options.load_wait if wait is None else wait)
        except OUTSIDE as error:
            raise NotLoaded(error.message) from error

    async def generate(
        self, ref: VersionRef, prompt: Prompt, sampling: Sampling, wait: timedelta | None = None
    ) -> Generation:
        """Raises NotLoaded, Unservable, NotFound for a version that there is not, FailedPrecondition for one whose
        artifact is not there yet, InvalidArgument for a request that does not fit the model, Unavailable where the
        engine is gone, and BrokenOff where it gave up on one of the completions.

        A version that was lost is loaded again first. One that is not there again in time is NotLoaded, or when it was
        lost before not long ago, raises what it was lost with: an engine that dies at each request is not for ever
        being loaded.
        """
        await self._ensure_servable(ref, wait)
        lost: RatchetError | None = None

        async def generate() -> Generation:
            policy_id = await self._ensure_servable(ref, wait)
            with _of_engine(ref):
                return await self._engine.generate(str(ref), policy_id, prompt, sampling)

        async def forget(error: RatchetError) -> None:
            nonlocal lost
            lost = error if self._lose(ref) else None

        try:
            made = await with_recovery(generate, forget, (Unavailable,))
        except NotLoaded:
            if lost is not None:
                raise lost from None
            raise
        require_whole(made.completions)
        return made

    async def stream(
        self, ref: VersionRef, prompt: Prompt, sampling: Sampling, wait: timedelta | None = None
    ) -> AsyncGenerator[Delta]:
        """Like generate, but for BrokenOff: who reads the pieces sees how they end. Only a version that is lost before
        its first piece is loaded again."""
        policy_id = await self._ensure_servable(ref, wait)
        started = False
        try:
            with _of_engine(ref):
                async with aclosing(self._engine.stream(str(ref), policy_id, prompt, sampling)) as deltas:
                    async for delta in deltas:
                        started = True
                        yield delta
            return
        except Unavailable as error:
            log.warning("version.lost", version=str(ref), reason=error.message)
            lost = error if self._lose(ref) else None
            if started:
                raise
        try:
            policy_id = await self._ensure_servable(ref, wait)
        except NotLoaded:
            if lost is not None:
                raise lost from None
            raise
        with _of_engine(ref):
            async with aclosing(self._engine.stream(str(ref), policy_id, prompt, sampling)) as deltas:
                async for delta in deltas:
                    yield delta

    async def _ensure_servable(self, ref: VersionRef, wait: timedelta | None) -> str:
        """`ensure`, for a request: a version that the registry knows and no engine takes is Unservable."""
        try:
            return await self.ensure(ref, wait)
        except UNLOADABLE as error:
            await self._registry.version(ref)  # raises where there is none, or none yet
            raise Unservable(f"{ref} cannot be served: {error.message}") from error

    def _forget(self, ref: VersionRef) -> None:
        self._ready.pop(ref, None)
        self._used.pop(ref, None)

    def _lose(self, ref: VersionRef) -> bool:
        """Forgets a version whose engine is gone. Whether that says something of the version: it was lost before, not
        long ago. An engine that was restarted is lost once, and one loss ends many requests."""
        was_ready, now = ref in self._ready, self._clock.now()
        self._forget(ref)
        if not was_ready:
            return False
        self._losses = {other: time for other, time in self._losses.items() if now - time < LOST_AGAIN}
        again = ref in self._losses
        self._losses[ref] = now
        return again

    async def unload(self, ref: VersionRef) -> None:
        """Idempotent. Raises Unavailable."""
        self._forget(ref)
        await unload(self._engine, str(ref))

    @property
    def remembered(self) -> int:
        """Versions that this gateway holds anything of."""
        return len({*self._ready, *self._loading, *self._failures, *self._used, *self._losses})

    async def close(self) -> None:
        """Stops waiting for loads; the rollout service goes on with them."""
        tasks = list(self._loading.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _join_loading(self, ref: VersionRef, wait: timedelta) -> str:
        if failure := self._recent_failure(ref):
            raise failure
        task = self._loading.get(ref) or self._begin_loading(ref)
        await asyncio.wait({task}, timeout=wait.total_seconds())
        if not task.done():
            raise Unavailable(f"{ref} is being loaded, try again in a few seconds")
        return task.result()

    def _begin_loading(self, ref: VersionRef) -> asyncio.Task[str]:
        task = self._loading[ref] = asyncio.create_task(self._load(ref), name=f"load {ref}")
        task.add_done_callback(lambda ended: self._loading_ended(ref, ended))
        return task

    def _loading_ended(self, ref: VersionRef, task: asyncio.Task[str]) -> None:
        del self._loading[ref]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.warning("version.load_failed", version=str(ref), reason=str(error))
        if isinstance(error, RatchetError) and not isinstance(error, OUTSIDE):
            now = self._clock.now()
            self._failures = {other: failure for other, failure in self._failures.items() if failure.until > now}
            options = self._options
            rest = options.retry_after_permanent_failure if is_permanent(error) else options.retry_after_failure
            self._failures[ref] = _Failure(error, now + rest)

    def _recent_failure(self, ref: VersionRef) -> RatchetError | None:
        failure = self._failures.get(ref)
        if failure is None:
            return None
        if failure.until > self._clock.now():
            return failure.error
        del self._failures[ref]
        return None

    async def _load(self, ref: VersionRef) -> str:
        version = await self._registry.version(ref)
        spec = PolicySpec(str(ref), version.source_uri, version.policy_id)
        try:
            policy = await ensure_ready(self._engine, spec, poll=self._options.poll)
        except ResourceExhausted as error:
            raise Unavailable(f"there is no room to load {ref}: {error.message}") from error
        self._ready[ref] = replace(spec, policy_id=policy.policy_id)
        self._used[ref] = self._clock.now()
        return policy.policy_id


@contextmanager
def _of_engine(ref: VersionRef) -> Iterator[None]:
    """What an engine says of a version that it no longer has, or not with these weights, is not about the request."""
    try:
        yield
    except LOST as error:
        raise Unavailable(f"the engine of {ref} is gone: {error.message}") from error
