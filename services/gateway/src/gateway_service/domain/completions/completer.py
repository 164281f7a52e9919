"""Answers completion requests: falls back when a candidate or the champion fails, and records every attempt."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta

from gateway_service.domain.completions import spans
from gateway_service.domain.completions.answer_cache import AnswerCache
from gateway_service.domain.completions.completion import CompletionRequest, CompletionResponse, ResponseDelta
from gateway_service.domain.completions.router import Route, Router
from gateway_service.domain.keys.caller import caller
from gateway_service.domain.keys.quotas import Quotas
from gateway_service.domain.keys.usage import Usage
from gateway_service.domain.serving import NotLoaded, Serving
from gateway_service.domain.traffic.material import Material, material_of
from gateway_service.domain.traffic.record import MAX_KEPT_TEXT, CompletionRecord, Unit, unit_id
from gateway_service.domain.traffic.recorder import Recorder
from ratchet_kit.errors import DataLoss, InvalidArgument, NotFound, RatchetError, Unavailable
from ratchet_kit.ids import new_id
from ratchet_kit.logs import get_logger
from ratchet_kit.times import Clock
from ratchet_policies import BrokenOff, Delta, FinishReason, Generation, Sampling, joined_calls, require_whole
from ratchet_problems import Message, ToolCall

log = get_logger(__name__)

GIVEN_UP = "given up"
"""The message that cancels an answer whose caller stays: that to another of its prompts has failed."""

COUNTING = Sampling(max_tokens=0, echo=True)
"""Reads a prompt and makes no token."""


class Completer:
    """The use case behind every completion endpoint."""

    def __init__(
        self,
        router: Router,
        serving: Serving,
        recorder: Recorder,
        usage: Usage,
        quotas: Quotas,
        cache: AnswerCache,
        clock: Clock,
    ) -> None:
        self._usage = usage
        self._quotas = quotas
        self._cache = cache
        self._router = router
        self._serving = serving
        self._recorder = recorder
        self._clock = clock

    async def complete(self, request: CompletionRequest) -> CompletionResponse:
        """Raises what `Router.route` and `Serving.generate` raise, for the version that was tried last, and
        ResourceExhausted while the caller has used its tokens, or somebody their budget, up."""
        route = await self._route(request)
        if self._cache.takes(route, request):
            return await self._once(route, request)
        return await self._made(route, request)

    async def count_tokens(self, request: CompletionRequest) -> int:
        """Tokens of the prompt, as the version reads it that would answer. No answer is made, and nothing recorded.

        Raises as `complete`, but asks no baseline in place of a candidate that fails."""
        route = await self._route(request)
        echoed = await self._serving.generate(route.version, request.prompt, COUNTING, route.wait)
        return echoed.prompt_tokens

    @contextmanager
    def several(self, requests: Sequence[CompletionRequest]) -> Iterator[None]:
        """Around the answers to several prompts of one request. Raises ResourceExhausted, and InvalidArgument for more
        than a key may have at once."""
        self._usage.require_answers(caller(), sum(request.sampling.n for request in requests))
        with self._usage.admit_more(caller(), len(requests) - 1):
            yield

    async def _route(self, request: CompletionRequest) -> Route:
        """While the champion has no engine that answers and the champion before it has one, that one's route."""
        self._usage.require_tokens(caller())
        self._quotas.require(caller(), request.target.model)
        route = await self._router.route(request.target, request.routing_key, request.session)
        if not route.is_champion or route.is_judged or self._serving.answers(route.version):
            return route
        assert route.fallback is not None, "a champion's route with a fallback"
        if not self._serving.answers(route.fallback):
            return route
        self._serving.load(route.version)
        return route.to_fallback()

    async def _once(self, route: Route, request: CompletionRequest) -> CompletionResponse:
        """The answer to the same request before, or a new one, which is kept."""
        policy_id = self._serving.policy_id(route.version)
        kept = self._cache.find(caller().id, route.version, policy_id, request) if policy_id else None
        if kept is not None:
            return kept
        response = await self._made(route, request)
        if response.version == route.version:
            self._cache.keep(caller().id, request, response)
        return response

    async def _made(self, route: Route, request: CompletionRequest) -> CompletionResponse:
        with self._admitted(request):
            return await self._tried(route, request)

    async def _tried(self, route: Route, request: CompletionRequest) -> CompletionResponse:
        attempt = _Attempt(route, request, self._clock.now())
        try:
            return await self._answer(request, attempt)
        except RatchetError as error:
            failure = error
            if not _falls_back(route, error):
                self._record_failure(attempt, error)
                raise
        with self._fallback_for(attempt, failure) as fallback:
            return await self._answer(request, fallback)

    async def stream(self, request: CompletionRequest) -> AsyncGenerator[ResponseDelta]:
        """Like complete. The baseline steps in only before the first piece: text that was sent cannot be taken back.

        Whoever closes it after the end of every choice has the whole answer."""
        route = await self._route(request)
        with self._admitted(request):
            attempt = _Attempt(route, request, self._clock.now())
            try:
                async with aclosing(self._pieces(request, attempt)) as pieces:
                    async for piece in pieces:
                        yield piece
                return
            except RatchetError as error:
                failure = error
                if not _falls_back(route, error) or attempt.texts:
                    self._record_failure(attempt, error)
                    raise
            with self._fallback_for(attempt, failure) as fallback:
                async with aclosing(self._pieces(request, fallback)) as pieces:
                    async for piece in pieces:
                        yield piece

    @contextmanager
    def _admitted(self, request: CompletionRequest) -> Iterator[None]:
        """Its choices: the door has admitted the first."""
        answers = max(1, request.sampling.n)  # what is none, the engine refuses
        self._usage.require_answers(caller(), answers)
        with self._usage.admit_more(caller(), answers - 1):
            yield

    async def _answer(self, request: CompletionRequest, attempt: "_Attempt") -> CompletionResponse:
        route = attempt.route
        with self._noting_who_leaves(attempt):
            generation = await self._serving.generate(route.version, request.prompt, request.sampling, route.wait)
        now = self._clock.now()
        attempt.set(generation)
        self._spend(attempt, attempt.prompt_tokens, attempt.completion_tokens)
        self._record(attempt.record(now), request)
        return CompletionResponse(attempt.id, route.version, generation, route.arm_name, now - attempt.start_time)

    async def _pieces(self, request: CompletionRequest, attempt: "_Attempt") -> AsyncGenerator[ResponseDelta]:
        route = attempt.route
        stream = self._serving.stream(route.version, request.prompt, request.sampling, route.wait)
        engine_time: timedelta | None = None
        with self._noting_who_leaves(attempt):
            async with aclosing(stream) as deltas:
                async for delta in deltas:
                    require_whole([delta.completion])
                    if engine_time is None:
                        engine_time = self._clock.now() - attempt.start_time
                    read, made = attempt.prompt_tokens, attempt.completion_tokens
                    attempt.add(delta)
                    if attempt.is_whole:
                        attempt.end_time = self._clock.now()
                    # a caller that leaves has used them
                    self._spend(attempt, attempt.prompt_tokens - read, attempt.completion_tokens - made)
                    yield ResponseDelta(attempt.id, route.version, delta, route.arm_name, engine_time)
        if attempt.end_time is None:
            raise BrokenOff("the engine's answer broke off")
        self._record(attempt.record(attempt.end_time), attempt.request)

    def _spend(self, attempt: "_Attempt", prompt_tokens: int, completion_tokens: int) -> None:
        self._usage.spend(caller(), prompt_tokens + completion_tokens)
        self._quotas.spend(caller(), attempt.route.version.model, prompt_tokens, completion_tokens)

    @contextmanager
    def _noting_who_leaves(self, attempt: "_Attempt") -> Iterator[None]:
        try:
            yield
        except (asyncio.CancelledError, GeneratorExit) as error:
            if GIVEN_UP in error.args:
                pass  # nobody left, and nothing is known of the version
            elif attempt.end_time is not None:  # with all of it
                self._record(attempt.record(attempt.end_time), attempt.request)
            else:
                left = replace(attempt.record(self._clock.now()), left=True, texts=(), material=None)
                self._record(left, attempt.request)
            raise

    @contextmanager
    def _fallback_for(self, failed: "_Attempt", failure: RatchetError) -> Iterator["_Attempt"]:
        """The fallback's attempt after a candidate's, a variant's or the champion's.

        The failure counts against the version, but not that it is being loaded. A request that the version refused
        counts only when the fallback answers it: refused by both, it is the caller's fault.
        """
        log.warning("version.failed", version=str(failed.route.version), reason=failure.message)
        record = failed.record(self._clock.now(), failure.message)
        refused = isinstance(failure, InvalidArgument)
        is_loading = isinstance(failure, NotLoaded) and (failed.route.release_id or failed.route.is_champion)
        if not refused and not is_loading:
            self._record(record, failed.request)
        yield _Attempt(failed.route.to_fallback(), failed.request, failed.start_time)
        if refused:
            self._record(record, failed.request)

    def _record(self, record: CompletionRecord, request: CompletionRequest) -> None:
        self._recorder.record(record)
        spans.add(record, request)

    def _record_failure(self, attempt: "_Attempt", error: RatchetError) -> None:
        if isinstance(error, NotLoaded) and attempt.route.release_id:
            return  # of either arm: a release judges versions, not the platform
        if not isinstance(error, InvalidArgument | NotFound):
            self._record(attempt.record(self._clock.now(), error.message), attempt.request)


def _falls_back(route: Route, failure: RatchetError) -> bool:
    """The champion's caller is told of a refusal and of a full queue; only what it cannot answer goes to another."""
    return route.fallback is not None and (not route.is_champion or isinstance(failure, Unavailable | DataLoss))


class _Attempt:
    """What one version has answered so far; it becomes a CompletionRecord."""

    def __init__(self, route: Route, request: CompletionRequest, start_time: datetime) -> None:
        self.id = new_id("cmpl")
        self.route = route
        self.request = request
        self.start_time = start_time
        self.policy_id = ""
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.texts: dict[int, str] = {}
        self.calls: dict[int, tuple[ToolCall, ...]] = {}
        self.end_time: datetime | None = None
        """Of a stream's last piece."""
        self.reasons: dict[int, FinishReason] = {}
        """By the index of a choice that has ended."""

    @property
    def is_whole(self) -> bool:
        """Of a stream: whether every choice has ended."""
        return len(self.reasons) == self.request.sampling.n

    def set(self, generation: Generation) -> None:
        self.policy_id = generation.policy_id
        self.prompt_tokens = generation.prompt_tokens
        self.completion_tokens = sum(len(completion.token_ids) for completion in generation.completions)
        self.texts = {completion.index: completion.text for completion in generation.completions}
        self.calls = {completion.index: completion.tool_calls for completion in generation.completions}
        self.reasons = {completion.index: completion.finish_reason for completion in generation.completions}

    def add(self, delta: Delta) -> None:
        new = delta.completion
        self.policy_id = delta.policy_id or self.policy_id
        self.prompt_tokens += delta.prompt_tokens
        self.completion_tokens += len(new.token_ids)
        self.texts[new.index] = self.texts.get(new.index, "") + new.text
        if new.finish_reason is not FinishReason.UNFINISHED:
            self.reasons[new.index] = new.finish_reason
        if new.tool_calls:
            self.calls[new.index] = joined_calls(self.calls.get(new.index, ()), new.tool_calls)

    def record(self, end_time: datetime, error: str = "") -> CompletionRecord:
        key, request = caller(), self.request
        texts = tuple(self.texts[index] for index in sorted(self.texts))
        material = self._material() if key.keep_traffic and not error else None
        is_graded_later = not error and material is None and sum(map(len, texts)) <= MAX_KEPT_TEXT
        return CompletionRecord(
            id=self.id,
            start_time=self.start_time,
            version=self.route.version,
            arm=self.route.arm,
            latency=end_time - self.start_time,
            release_id=self.route.release_id,
            stage=self.route.stage,
            policy_id=self.policy_id,
            error=error,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            experiment_id=self.route.experiment_id,
            variant=self.route.variant,
            unit=self.route.unit,
            texts=texts if is_graded_later else (),
            key_id=key.id,
            user=unit_id(Unit.USER, request.routing_key),
            session=unit_id(Unit.SESSION, request.session),
            slow_after=self.route.slow_after,
            material=material,
        )

    def _material(self) -> Material | None:
        answers = [Message("assistant", self.texts[i], self.calls.get(i, ())) for i in sorted(self.texts)]
        reasons = [self.reasons.get(i, FinishReason.UNFINISHED) for i in sorted(self.texts)]
        return material_of(self.request.prompt, answers, reasons)
