"""/v1: the API of OpenAI's clients, answered by the models, versions and aliases of the registry."""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request, Response

from gateway_service.auth import http_auth
from gateway_service.domain.completions.completion import CompletionResponse
from gateway_service.domain.completions.router import Router
from gateway_service.domain.keys.caller import caller
from gateway_service.domain.keys.key import Scope
from gateway_service.domain.ports import ModelRegistry
from gateway_service.rest import bodies, sse
from gateway_service.rest import openai_answers as answers
from gateway_service.rest.completing import Completing, Piece, described, request_of, seconds
from gateway_service.rest.errors import openai_error_body
from gateway_service.rest.express import Track
from gateway_service.rest.openai_requests import ChatRequest, TextRequest
from ratchet_kit.errors import RatchetError
from ratchet_kit.names import ModelRef
from ratchet_kit.times import Clock
from ratchet_policies import Echo

BODIES = (ChatRequest, TextRequest)


class Completions:
    """The two endpoints of completions. They read their bodies themselves."""

    def __init__(self, completing: Completing, clock: Clock) -> None:
        self._completing = completing
        self._clock = clock

    @property
    def tracks(self) -> Sequence[Track]:
        return (
            Track("/v1/chat/completions", Scope.INFERENCE, self.chat),
            Track("/v1/completions", Scope.INFERENCE, self.text),
        )

    async def chat(self, http: Request) -> Response:
        """Answers a conversation."""
        return await self._answer(answers.CHAT, http, time.perf_counter(), await bodies.read_as(http, ChatRequest))

    async def text(self, http: Request) -> Response:
        """Continues one text, or several."""
        return await self._answer(answers.TEXT, http, time.perf_counter(), await bodies.read_as(http, TextRequest))

    async def _answer(
        self, shape: answers.Shape, http: Request, begin: float, body: ChatRequest | TextRequest
    ) -> Response:
        body.refuse_unsupported()
        sampling = body.sampling()
        requests = [request_of(http, body.model, prompt, sampling, body.user) for prompt in body.prompts()]
        writer = _Writer(shape, seconds(self._clock.now()), sampling.n, body.with_usage)
        return await self._completing.answer(http, requests, writer, begin=begin, stream=bool(body.stream))


def build(completions: Completions, router: Router, registry: ModelRegistry) -> APIRouter:
    api = APIRouter(prefix="/v1", tags=["openai"], dependencies=[http_auth(Scope.INFERENCE)])
    api.post("/chat/completions", **described(ChatRequest, answers.ChatCompletion))(completions.chat)
    api.post("/completions", **described(TextRequest, answers.TextCompletion))(completions.text)

    @api.get("/models")
    async def list_models() -> answers.ModelList:
        """The models of the key. A request names one as "name", "name@version" or "name:alias"."""
        models = [model for model in await registry.models() if caller().may_call(model.name)]
        return answers.ModelList(
            data=[answers.ModelCard(id=model.name, created=seconds(model.create_time)) for model in models]
        )

    @api.get("/models/{model:path}")
    async def get_model(model: str) -> answers.ModelCard:
        """A model, a version or an alias that completions can be requested of."""
        route = await router.route(ModelRef.parse_registered(model), "")
        version = await registry.version(route.version)
        return answers.ModelCard(id=model, created=seconds(version.create_time))

    return api


class _Writer:
    """Answers as OpenAI writes them, whole or in chunks."""

    def __init__(self, shape: answers.Shape, created: int, choices: int, with_usage: bool) -> None:
        """`choices`: of each prompt."""
        self._shape = shape
        self._created = created
        self._choices = choices
        self._with_usage = with_usage
        self._head: dict[str, Any] = {}
        self._echoes: dict[int, Echo | None] = {}  # by prompt
        self._sent: dict[int, int] = {}  # by choice: characters
        self._prompt_tokens = 0
        self._completion_tokens = 0

    def whole(self, replies: Sequence[CompletionResponse]) -> answers.ChatCompletion | answers.TextCompletion:
        return self._shape.whole(replies, self._created)

    async def events(self, first: Piece, rest: AsyncGenerator[Piece]) -> AsyncGenerator[str]:
        self._head = {
            "id": first.piece.id,
            "object": self._shape.chunk,
            "created": self._created,
            "model": str(first.piece.version),
            "system_fingerprint": first.piece.delta.policy_id,
        } | ({"usage": None} if self._with_usage else {})
        async with aclosing(rest):
            try:
                yield self._event(first)
                async for piece in rest:
                    if text := self._event(piece):
                        yield text
            except RatchetError as error:
                yield sse.event(openai_error_body(error))
                return
        if self._with_usage:
            usage = answers.Usage.of(self._prompt_tokens, self._completion_tokens)
            yield sse.event(self._head | {"choices": [], "usage": usage.model_dump()})
        yield sse.event("[DONE]")

    def _event(self, piece: Piece) -> str:
        """Empty for a piece of which nothing is to be seen: the begin of what may become a call of a tool."""
        delta = piece.piece.delta
        choice, index = delta.completion, piece.prompt * self._choices + delta.completion.index
        self._prompt_tokens += delta.prompt_tokens
        self._completion_tokens += len(choice.token_ids)
        opens = index not in self._sent
        if opens:
            choice = answers.echoing(choice, self._echoes.setdefault(piece.prompt, delta.echo))
        elif not (
            choice.text or choice.tool_calls or choice.candidates or answers.FINISH_REASONS[choice.finish_reason]
        ):
            return ""
        offset = self._sent.get(index, 0)
        self._sent[index] = offset + len(choice.text)
        return sse.event(self._head | {"choices": [self._shape.delta(choice, index, offset, opens)]})
