"""Answers completion requests: routes each to a version, falls back when a candidate fails, and keeps the record."""

import random
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from gateway_service.domain.completions import Answer, AnswerDelta, CompletionRequest, Delta
from gateway_service.domain.ports import ModelRegistry, ReleaseStore
from gateway_service.domain.recording import Recorder
from gateway_service.domain.releases import ReleaseState
from gateway_service.domain.routing import Arm, choose_arm
from gateway_service.domain.serving import Serving
from gateway_service.domain.targets import AliasRef, ReleasedRef, Target, VersionRef
from gateway_service.domain.traffic import MAX_KEPT_TEXT, CompletionRecord
from ratchet_kit.errors import (
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    RatchetError,
    Unavailable,
)
from ratchet_kit.ids import new_id
from ratchet_kit.logs import get_logger
from ratchet_kit.times import Clock

log = get_logger(__name__)

# A candidate that is not ready is not waited for: its baseline is.
NO_WAIT = timedelta(0)


@dataclass(frozen=True)
class Route:
    """Which version answers. `fallback`: the baseline that steps in when a candidate fails."""

    version: VersionRef
    arm: Arm = Arm.NONE
    release_id: str = ""
    stage: int = 0
    fallback: VersionRef | None = None

    @property
    def wait(self) -> timedelta | None:
        return NO_WAIT if self.arm is Arm.CANDIDATE else None

    def instead(self) -> "Route":
        """The baseline in place of a candidate."""
        assert self.fallback is not None
        return Route(self.fallback, Arm.FALLBACK, self.release_id, self.stage)


class Router:
    """Finds the version for a request. Exact at every request: a rollback moves all traffic at once."""

    def __init__(self, registry: ModelRegistry, releases: ReleaseStore, chance: random.Random) -> None:
        self._registry = registry
        self._releases = releases
        self._chance = chance
        self._champions: dict[str, int | None] = {}

    async def route(self, target: Target, routing_key: str) -> Route:
        """Raises NotFound for an unknown alias or model, FailedPrecondition for a model without a champion."""
        match target:
            case VersionRef():
                return Route(target)
            case AliasRef(model, alias):
                return Route((await self._registry.resolve(model, alias)).ref)
            case ReleasedRef(model):
                return await self._by_release(model, routing_key)

    async def _by_release(self, model: str, routing_key: str) -> Route:
        release = await self._releases.active(model)
        if release is None or release.state is not ReleaseState.PROGRESSING:
            return Route(await self._champion(model))
        arm = choose_arm(release, routing_key, self._chance)
        if arm is Arm.CANDIDATE:
            return Route(release.candidate_ref, arm, release.id, release.stage, fallback=release.baseline_ref)
        return Route(release.baseline_ref, arm, release.id, release.stage)

    async def _champion(self, model: str) -> VersionRef:
        """While the registry is away, the champion it last named: what is loaded goes on answering."""
        try:
            self._champions[model] = (await self._registry.model(model)).champion
        except (Unavailable, DeadlineExceeded):
            if model not in self._champions:
                raise
        champion = self._champions[model]
        if champion is None:
            raise FailedPrecondition(f"model {model} has no champion: name a version, such as {model}@1, or set one")
        return VersionRef(model, champion)


class Completer:
    """The use case behind every completion endpoint."""

    def __init__(self, router: Router, serving: Serving, recorder: Recorder, clock: Clock) -> None:
        self._router = router
        self._serving = serving
        self._recorder = recorder
        self._clock = clock

    async def complete(self, request: CompletionRequest) -> Answer:
        """Raises what `Router.route` and `Serving.generate` raise, for the version that was to answer in the end."""
        route = await self._router.route(request.target, request.routing_key)
        attempt = _Attempt(route, self._clock.now())
        try:
            return await self._answer(request, attempt)
        except RatchetError as e:
            failure = e
            if route.fallback is None:
                self._record_failure(attempt, e)
                raise
        with self._instead_of(attempt, failure) as substitute:
            return await self._answer(request, substitute)

    async def stream(self, request: CompletionRequest) -> AsyncGenerator[AnswerDelta]:
        """Like complete. A candidate that fails after its first piece fails the stream: sent words cannot be unsaid."""
        route = await self._router.route(request.target, request.routing_key)
        attempt = _Attempt(route, self._clock.now())
        try:
            async with aclosing(self._pieces(request, attempt)) as pieces:
                async for piece in pieces:
                    yield piece
            return
        except RatchetError as e:
            failure = e
            if route.fallback is None or attempt.texts:
                self._record_failure(attempt, e)
                raise
        with self._instead_of(attempt, failure) as substitute:
            async with aclosing(self._pieces(request, substitute)) as pieces:
                async for piece in pieces:
                    yield piece

    async def _answer(self, request: CompletionRequest, attempt: "_Attempt") -> Answer:
        route = attempt.route
        generation = await self._serving.generate(route.version, request.prompt, request.sampling, route.wait)
        answer = Answer(attempt.id, route.version, generation)
        attempt.set(answer)
        self._recorder.record(attempt.record(self._clock.now()))
        return answer

    async def _pieces(self, request: CompletionRequest, attempt: "_Attempt") -> AsyncGenerator[AnswerDelta]:
        route = attempt.route
        async with aclosing(
            self._serving.stream(route.version, request.prompt, request.sampling, route.wait)
        ) as deltas:
            async for delta in deltas:
                attempt.add(delta)
                yield AnswerDelta(attempt.id, route.version, delta)
        self._recorder.record(attempt.record(self._clock.now()))

    @contextmanager
    def _instead_of(self, failed: "_Attempt", failure: RatchetError) -> Iterator["_Attempt"]:
        """The baseline's attempt in place of a candidate's. The failure counts against the candidate, except when the
        baseline refuses the request as well: then it is the caller's fault."""
        version = str(failed.route.version)
        log.warning("a candidate failed, its baseline answers", version=version, error=failure.message)
        record = failed.record(self._clock.now(), failure.message)
        refused = isinstance(failure, InvalidArgument)
        if not refused:
            self._recorder.record(record)
        yield _Attempt(failed.route.instead(), failed.start)
        if refused:
            self._recorder.record(record)

    def _record_failure(self, attempt: "_Attempt", error: RatchetError) -> None:
        if not isinstance(error, InvalidArgument | NotFound):
            self._recorder.record(attempt.record(self._clock.now(), error.message))


class _Attempt:
    """What becomes a CompletionRecord."""

    def __init__(self, route: Route, start: datetime) -> None:
        self.id = new_id("cmpl")
        self.route = route
        self.start = start
        self.policy_id = ""
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.texts: dict[int, str] = {}

    def set(self, answer: Answer) -> None:
        self.policy_id = answer.generation.policy_id
        self.prompt_tokens = answer.generation.prompt_tokens
        self.completion_tokens = answer.completion_tokens
        self.texts = {choice.index: choice.text for choice in answer.generation.choices}

    def add(self, delta: Delta) -> None:
        self.policy_id = delta.policy_id or self.policy_id
        self.prompt_tokens += delta.prompt_tokens
        self.completion_tokens += len(delta.choice.token_ids)
        self.texts[delta.choice.index] = self.texts.get(delta.choice.index, "") + delta.choice.text

    def record(self, end: datetime, error: str = "") -> CompletionRecord:
        texts = tuple(self.texts[index] for index in sorted(self.texts))
        return CompletionRecord(
            id=self.id,
            time=self.start,
            version=self.route.version,
            arm=self.route.arm,
            latency=end - self.start,
            release_id=self.route.release_id,
            stage=self.route.stage,
            policy_id=self.policy_id,
            error=error,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            texts=texts if not error and sum(map(len, texts)) <= MAX_KEPT_TEXT else (),
        )
