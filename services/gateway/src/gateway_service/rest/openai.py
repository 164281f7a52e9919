"""/v1: the API of OpenAI's clients, answered by the models, versions and aliases of the registry."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from gateway_service.auth import http_auth
from gateway_service.convert import headers_of
from gateway_service.domain.completions.completer import GIVEN_UP, Completer
from gateway_service.domain.completions.completion import CompletionRequest, CompletionResponse, ResponseDelta
from gateway_service.domain.completions.router import Router
from gateway_service.domain.keys.caller import caller
from gateway_service.domain.keys.key import Scope
from gateway_service.domain.ports import ModelRegistry
from gateway_service.rest import bodies, sse
from gateway_service.rest import openai_answers as answers
from gateway_service.rest.errors import openai_error_body
from gateway_service.rest.express import Track
from gateway_service.rest.openai_requests import ChatRequest, TextRequest
from ratchet_kit.errors import RatchetError
from ratchet_kit.http_server import while_connected
from ratchet_kit.names import ModelRef
from ratchet_kit.times import Clock
from ratchet_policies import Echo

ROUTING_KEY = "x-ratchet-routing-key"
SESSION = "x-ratchet-session"
SCHEMAS = "#/components/schemas/"
BODIES = (ChatRequest, TextRequest)
MERGED_PIECES = 64
"""Of several prompts' streams, that wait for a slow reader."""


class Completions:
    """The two endpoints of completions. They read their bodies themselves."""

    def __init__(self, completer: Completer, clock: Clock) -> None:
        self._completer = completer
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
        target, routing_key = ModelRef.parse_registered(body.model), http.headers.get(ROUTING_KEY) or body.user or ""
        session = http.headers.get(SESSION, "")
        requests = [CompletionRequest(target, prompt, sampling, routing_key, session) for prompt in body.prompts()]
        now = _seconds(self._clock.now())
        if not body.stream:
            with self._completer.several(requests):
                replies = await while_connected(http.receive, _complete(self._completer, requests))
            whole = shape.whole(replies, now).model_dump_json()
            return Response(
                whole, media_type="application/json", headers=headers_of(replies[0], time.perf_counter() - begin)
            )
        pieces = await sse.started(http.receive, _merged(self._completer, requests))
        first = await anext(pieces)
        chunks = _Chunks(shape, first.piece, now, sampling.n, body.with_usage)
        return sse.EventStream(chunks.events(first, pieces), headers_of(first.piece, time.perf_counter() - begin))


def build(completions: Completions, router: Router, registry: ModelRegistry) -> APIRouter:
    api = APIRouter(prefix="/v1", tags=["openai"], dependencies=[http_auth(Scope.INFERENCE)])
    api.post("/chat/completions", **_described(ChatRequest, answers.ChatCompletion))(completions.chat)
    api.post("/completions", **_described(TextRequest, answers.TextCompletion))(completions.text)

    @api.get("/models")
    async def list_models() -> answers.ModelList:
        """The models of the key. A request names one as "name", "name@version" or "name:alias"."""
        models = [model for model in await registry.models() if caller().may_call(model.name)]
        return answers.ModelList(
            data=[answers.ModelCard(id=model.name, created=_seconds(model.create_time)) for model in models]
        )

    @api.get("/models/{model:path}")
    async def get_model(model: str) -> answers.ModelCard:
        """A model, a version or an alias that completions can be requested of."""
        route = await router.route(ModelRef.parse_registered(model), "")
        version = await registry.version(route.version)
        return answers.ModelCard(id=model, created=_seconds(version.create_time))

    return api


def components() -> dict[str, Any]:
    """The JSON Schemas of the bodies that FastAPI does not read, for OpenAPI."""
    _, schema = models_json_schema([(body, "validation") for body in BODIES], ref_template=SCHEMAS + "{model}")
    return dict(schema["$defs"])


def _described(body: type[BaseModel], answer: type[BaseModel]) -> dict[str, Any]:
    """What OpenAPI says of a route whose function takes the request as it comes."""
    content = {"application/json": {"schema": {"$ref": SCHEMAS + body.__name__}}}
    headers = {ROUTING_KEY: "Takes the place of `user`.", SESSION: "Session, for experiments that assign sessions."}
    header = {"in": "header", "required": False, "schema": {"type": "string"}}
    return {
        "response_model": None,
        "response_class": Response,
        "responses": {200: {"model": answer, "content": {"text/event-stream": {"schema": {"type": "string"}}}}},
        "openapi_extra": {
            "requestBody": {"required": True, "content": content},
            "parameters": [header | {"name": name, "description": text} for name, text in headers.items()],
        },
    }


async def _complete(completer: Completer, requests: Sequence[CompletionRequest]) -> Sequence[CompletionResponse]:
    """The answers to all of them, or the error of the first that fails: then the others are given up."""
    if len(requests) == 1:
        return [await completer.complete(requests[0])]
    tasks = [asyncio.create_task(completer.complete(request)) for request in requests]
    try:
        return await asyncio.gather(*tasks)
    except Exception:
        for task in tasks:
            task.cancel(GIVEN_UP)
        raise


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece of the answer to one of several prompts."""

    prompt: int
    piece: ResponseDelta


async def _merged(completer: Completer, requests: Sequence[CompletionRequest]) -> AsyncGenerator[_Piece]:
    """The pieces of all streams, as they come. Raises what one of them raises, and closes the others."""
    if len(requests) == 1:
        async with aclosing(completer.stream(requests[0])) as pieces:
            async for piece in pieces:
                yield _Piece(0, piece)
        return
    with completer.several(requests):
        async with aclosing(_all_pieces([completer.stream(request) for request in requests])) as merged:
            async for one in merged:
                yield one


async def _all_pieces(streams: Sequence[AsyncGenerator[ResponseDelta]]) -> AsyncGenerator[_Piece]:
    waiting: asyncio.Queue[_Piece | Exception | None] = asyncio.Queue(MERGED_PIECES)

    async def pump(prompt: int, stream: AsyncGenerator[ResponseDelta]) -> None:
        try:
            async with aclosing(stream) as pieces:
                async for one in pieces:
                    await waiting.put(_Piece(prompt, one))
            await waiting.put(None)
        except Exception as error:  # noqa: BLE001 (raised below, to who reads)
            await waiting.put(error)

    tasks = [asyncio.create_task(pump(prompt, stream)) for prompt, stream in enumerate(streams)]
    left, reason = len(tasks), None
    try:
        while left:
            match await waiting.get():
                case None:
                    left -= 1
                case Exception() as error:
                    reason = GIVEN_UP
                    raise error
                case _Piece() as piece:
                    yield piece
    finally:
        for task in tasks:
            task.cancel(reason)
        await asyncio.gather(*tasks, return_exceptions=True)


class _Chunks:
    """A stream as OpenAI writes it."""

    def __init__(
        self,
        shape: answers.Shape,
        first: ResponseDelta,
        created: int,
        choices: int,
        with_usage: bool,
    ) -> None:
        """`choices`: of each prompt."""
        self._shape = shape
        self._choices = choices
        self._with_usage = with_usage
        self._head: dict[str, Any] = {
            "id": first.id,
            "object": shape.chunk,
            "created": created,
            "model": str(first.version),
            "system_fingerprint": first.delta.policy_id,
        } | ({"usage": None} if with_usage else {})
        self._echoes: dict[int, Echo | None] = {}  # by prompt
        self._sent: dict[int, int] = {}  # by choice: characters
        self._prompt_tokens = 0
        self._completion_tokens = 0

    async def events(self, first: _Piece, rest: AsyncGenerator[_Piece]) -> AsyncGenerator[str]:
        """A fault after the first piece is an event too, and the last."""
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

    def _event(self, piece: _Piece) -> str:
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


def _seconds(time: datetime) -> int:
    return int(time.timestamp())
