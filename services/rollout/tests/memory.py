"""The ports in memory, for tests: scripted engines, and model folders that exist by name only."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Collection, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from ratchet_kit.errors import DataLoss, FieldViolation, InvalidArgument, RatchetError, Unavailable
from ratchet_policies import (
    ChatPrompt,
    Completion,
    Echo,
    FinishReason,
    TextPrompt,
    TokenCandidate,
    TokenPrompt,
    no_room,
    over_length,
)
from ratchet_problems import ToolCall
from rollout_service.adapters.engines.infill import NO_FORM
from rollout_service.domain.generation import EngineOutput, GenerationRequest
from rollout_service.domain.policy import Death, Dtype, EngineInfo, EngineOptions, PolicyId, PolicyName
from rollout_service.domain.ports import Changes, KeptPolicy, ModelFolder, PolicyEngine
from rollout_service.domain.weights import Chunk, LoadedWeights, TensorHeader, WeightStream

MAX_MODEL_LEN = 64
LOG_PROB = -0.5
KV_CACHE_TOKENS = 4096


class ScriptedEngine:
    """Answers every prompt with the same tokens, until `die`. A streamed piece is one token. Of the tools that a chat
    offers it calls the one that it must call, or the first, with its first token.

    Clear `going` to pause generation; `interrupt` ends it even so. Set `accepts_weights` to False to fail the check of
    the next weights. `prepared` is the folder whose changes it would apply.
    """

    def __init__(self, model: ModelFolder) -> None:
        self.loaded = [model]
        self.going = asyncio.Event()
        self.going.set()
        self.accepts_weights = True
        self.stopped = False
        self.generating = 0
        self.cpu_time = timedelta()
        self.interrupted = asyncio.Event()
        self.asleep = False
        self.turn_error: RatchetError | None = None
        """Raised in place of falling asleep, or waking."""
        self.prepared: ModelFolder | None = None
        self._death: asyncio.Future[Death] = asyncio.get_running_loop().create_future()

    def die(self, reason: str, hung: bool = False) -> None:
        self._death.set_result(Death(reason, hung))

    @property
    def info(self) -> EngineInfo:
        return EngineInfo(Dtype.FLOAT32, MAX_MODEL_LEN, kv_cache_tokens=KV_CACHE_TOKENS)

    async def generate(self, request: GenerationRequest, *, stream: bool) -> AsyncGenerator[EngineOutput, None]:
        assert not self.asleep
        prompt = _tokens(request)
        if len(prompt) >= MAX_MODEL_LEN:
            problem = over_length(len(prompt), MAX_MODEL_LEN)
            raise InvalidArgument(problem, [FieldViolation("prompt.tokens.ids", problem)])
        room = MAX_MODEL_LEN - len(prompt)
        wanted = request.sampling.max_tokens
        count = room if wanted is None else min(wanted, room)
        if request.sampling.must_fit and count < (wanted or 0):
            problem = no_room(len(prompt), wanted or 0, MAX_MODEL_LEN)
            raise InvalidArgument(problem, [FieldViolation("sampling.max_tokens", problem)])
        if isinstance(request.prompt, TextPrompt) and request.prompt.suffix:
            raise InvalidArgument(NO_FORM, [FieldViolation("prompt.suffix", NO_FORM)])
        echo = _echo(request, prompt) if request.sampling.echo else None
        self.generating += 1
        try:
            whole = [_completion(request, index, range(count), last=True) for index in range(request.sampling.n)]
            if not stream or not count:
                await self._alive_and_going()
                broken_off = self.interrupted.is_set()
                yield EngineOutput(tuple(_aborted(request) if broken_off else whole), prompt, echo)
                return
            for position in range(count):
                await self._alive_and_going()
                if self.interrupted.is_set():
                    yield EngineOutput(tuple(_aborted(request)), prompt)
                    return
                last = position == count - 1
                pieces = [_completion(request, i, [position], last=last) for i in range(request.sampling.n)]
                yield EngineOutput(tuple(pieces), prompt, None if position else echo)
        finally:
            self.generating -= 1

    async def interrupt(self) -> None:
        self.interrupted.set()

    async def sleep(self) -> None:
        assert not self.asleep
        assert self.generating == 0, "it must not sleep while it generates"
        self._set_asleep(asleep=True)

    async def wake(self) -> None:
        assert self.asleep
        self._set_asleep(asleep=False)

    def _set_asleep(self, *, asleep: bool) -> None:
        if self.turn_error:
            raise self.turn_error
        self.asleep = asleep

    async def prepare(self, folder: ModelFolder) -> None:
        assert not self.asleep
        if self._death.done():
            raise Unavailable("the engine is gone")
        self.prepared = folder if folder.changes and folder.changes.base == self.loaded[-1].policy_id else None

    async def load_weights(self, folder: ModelFolder) -> LoadedWeights:
        if self._death.done():
            raise Unavailable("the engine is gone")
        assert self.generating == 0, "weights must not change under a generation"
        assert not self.asleep
        if not self.accepts_weights:
            raise DataLoss("the engine does not compute with the sent weights")
        self.loaded.append(folder)
        self.interrupted.clear()
        in_place, self.prepared = self.prepared is folder, None
        return LoadedWeights(probe_error=0.0, in_place=in_place)

    async def died(self) -> Death:
        return await asyncio.shield(self._death)

    async def stop(self) -> None:
        self.stopped = True
        if not self._death.done():
            self._death.set_result(Death("stopped"))

    async def _alive_and_going(self) -> None:
        going = [asyncio.create_task(event.wait()) for event in (self.going, self.interrupted)]
        try:
            futures: list[asyncio.Future[Any]] = [*going, self._death]
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in going:
                task.cancel()
        if self._death.done():
            raise Unavailable("the engine died during the call")


class ScriptedEngines:
    """An `EngineFactory`. While `refusals` holds errors, each start fails with the next one.

    `devices`: the GPUs that each engine of `started` was given.
    """

    def __init__(self) -> None:
        self.started: list[ScriptedEngine] = []
        self.devices: list[tuple[str, ...]] = []
        self.refusals: list[RatchetError] = []

    async def start(
        self, name: PolicyName, model: ModelFolder, options: EngineOptions, devices: Sequence[str] = ()
    ) -> PolicyEngine:
        await asyncio.sleep(0)
        if self.refusals:
            raise self.refusals.pop(0)
        self.started.append(ScriptedEngine(model))
        self.devices.append(tuple(devices))
        return self.started[-1]


class MemoryFolders:
    """`ModelFolders` without a disk: `models` maps sources to policy ids; received weights are hashed."""

    def __init__(self, models: dict[str, PolicyId]) -> None:
        self.models = models
        self.held: list[ModelFolder] = []

    async def check(self, source: str) -> None:
        if source not in self.models:
            raise InvalidArgument(f"{source} holds no model", [FieldViolation("source_uri", "holds no model")])

    async def fetch(self, source: str) -> ModelFolder:
        for folder in self.held:
            if str(folder.path) == source:
                return folder
        await self.check(source)
        return ModelFolder(Path(source), self.models[source], 0, str(content_id(source.encode())))

    async def receive(self, base: ModelFolder, weights: WeightStream, *, changes: bool = False) -> ModelFolder:
        names, content = list[str](), b""
        async for part in weights:
            match part:
                case TensorHeader(name):
                    names.append(name)
                case Chunk(data):
                    content += data
        if not names and not changes:
            raise InvalidArgument("no tensor came", [FieldViolation("message", "no tensor came")])
        folder = Path(f"received-{len(self.held)}")
        changed = Changes(base.policy_id, str(content_id(content))) if changes else None
        self.held.append(ModelFolder(folder, content_id(content), len(content), base.settings_id, changed))
        return self.held[-1]

    async def release(self, folder: ModelFolder) -> None:
        if folder in self.held:
            self.held.remove(folder)

    async def retain(self, folders: Collection[str]) -> None:
        self.held = [folder for folder in self.held if str(folder.path) in folders]


class MemoryJournal:
    """A `PolicyJournal` in memory."""

    def __init__(self) -> None:
        self._kept: dict[PolicyName, KeptPolicy] = {}

    async def keep(self, kept: KeptPolicy) -> None:
        self._kept[kept.policy.name] = kept

    async def forget(self, name: PolicyName) -> None:
        self._kept.pop(name, None)

    async def kept(self) -> list[KeptPolicy]:
        return [self._kept[name] for name in sorted(self._kept)]


def content_id(content: bytes) -> PolicyId:
    """The policy id that `MemoryFolders` gives to weights with this content."""
    return PolicyId("sha256:" + hashlib.sha256(content).hexdigest())


def _tokens(request: GenerationRequest) -> tuple[int, ...]:
    match request.prompt:
        case TokenPrompt(ids):
            return tuple(ids)
        case TextPrompt(text):
            return tuple(text.encode())
        case ChatPrompt(messages):
            return tuple("".join(message.content for message in messages).encode())


def _echo(request: GenerationRequest, prompt: tuple[int, ...]) -> Echo:
    whole = request.prompt.text if isinstance(request.prompt, TextPrompt) else "".join(f"{token} " for token in prompt)
    return Echo(whole, _candidates(prompt, request.sampling.top_logprobs))


def _completion(request: GenerationRequest, index: int, positions: "range | list[int]", *, last: bool) -> Completion:
    ids = tuple(position % 7 for position in positions)
    return Completion(
        index=index,
        token_ids=ids,
        log_probs=tuple(LOG_PROB for _ in ids) if request.sampling.logprobs else (),
        candidates=_candidates(ids, request.sampling.top_logprobs),
        text="".join(f"{token} " for token in ids),
        finish_reason=FinishReason.LENGTH if last else FinishReason.UNFINISHED,
        tool_calls=_calls(request) if 0 in positions else (),
    )


def _aborted(request: GenerationRequest) -> list[Completion]:
    return [Completion(index, "", FinishReason.ABORTED) for index in range(request.sampling.n)]


def _calls(request: GenerationRequest) -> tuple[ToolCall, ...]:
    if not isinstance(request.prompt, ChatPrompt) or request.prompt.tools is None:
        return ()
    tools = request.prompt.tools
    return (ToolCall(tools.called or tools.offered[0].name, "{}", "call_0"),)


def _candidates(ids: tuple[int, ...], top: int | None) -> tuple[tuple[TokenCandidate, ...], ...]:
    if top is None:
        return ()
    likeliest = tuple(TokenCandidate(token, f"{token} ", LOG_PROB) for token in range(top))
    return tuple((TokenCandidate(token, f"{token} ", LOG_PROB), *likeliest) for token in ids)
