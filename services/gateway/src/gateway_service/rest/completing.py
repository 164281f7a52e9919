"""The one path of every door of completions: a door reads its body into requests, and writes what comes of them.

So routing, releases and experiments, limits of keys, records and fallbacks are the same whichever API is spoken.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, cast

from fastapi import Request, Response
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from gateway_service.convert import headers_of
from gateway_service.domain.completions.completer import GIVEN_UP, Completer
from gateway_service.domain.completions.completion import CompletionRequest, CompletionResponse, ResponseDelta
from ratchet_kit.http_server import while_connected
from ratchet_kit.names import ModelRef
from ratchet_policies import Prompt, Sampling
from ratchet_sessions.doors import sse
from ratchet_sessions.doors.answers import Piece, Writer

ROUTING_KEY = "x-ratchet-routing-key"
SESSION = "x-ratchet-session"
SCHEMAS = "#/components/schemas/"
MERGED_PIECES = 64
"""Maximum number of pieces of several prompts' streams that wait for a slow reader."""


class Completing:
    def __init__(self, completer: Completer) -> None:
        self._completer = completer

    async def answer(
        self, http: Request, requests: Sequence[CompletionRequest], writer: Writer, *, begin: float, stream: bool
    ) -> Response:
        """`begin`: when the request came, by time.perf_counter. Raises what `Completer` raises, of a stream up to its
        first piece."""
        if not stream:
            with self._completer.several(requests):
                replies = await while_connected(http.receive, _complete(self._completer, requests))
            headers = headers_of(replies[0], time.perf_counter() - begin)
            return Response(
                writer.whole(replies).model_dump_json(by_alias=True), media_type="application/json", headers=headers
            )
        pieces = await sse.started(http.receive, _merged(self._completer, requests))
        first = await anext(pieces)
        headers = headers_of(cast(ResponseDelta, first.piece), time.perf_counter() - begin)
        return sse.EventStream(writer.events(first, pieces), headers)


def request_of(http: Request, model: str, prompt: Prompt, sampling: Sampling, user: str | None) -> CompletionRequest:
    """Raises InvalidArgument for what is no name of a model."""
    target, routing_key = ModelRef.parse_registered(model), http.headers.get(ROUTING_KEY) or user or ""
    return CompletionRequest(target, prompt, sampling, routing_key, http.headers.get(SESSION, ""))


def described(body: type[BaseModel], answer: type[BaseModel]) -> dict[str, Any]:
    """Describes for OpenAPI a route whose function takes the request as it comes."""
    content = {"application/json": {"schema": {"$ref": SCHEMAS + body.__name__}}}
    headers = {ROUTING_KEY: "Takes the place of `user`.", SESSION: "Session, for experiments that assign sessions."}
    header = {"in": "header", "required": False, "schema": {"type": "string"}}
    return {
        "response_model": None,
        "response_class": Response,
        "responses": {200: {"model": answer, "content": {"text/event-stream": {}}}},
        "openapi_extra": {
            "requestBody": {"required": True, "content": content},
            "parameters": [header | {"name": name, "description": text} for name, text in headers.items()],
        },
    }


def components(bodies: Sequence[type[BaseModel]]) -> dict[str, Any]:
    """The JSON Schemas of the bodies that FastAPI does not read, for OpenAPI."""
    _, schema = models_json_schema([(body, "validation") for body in bodies], ref_template=SCHEMAS + "{model}")
    return dict(schema["$defs"])


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


async def _merged(completer: Completer, requests: Sequence[CompletionRequest]) -> AsyncGenerator[Piece]:
    """The pieces of all streams, as they come. Raises what one of them raises, and closes the others."""
    if len(requests) == 1:
        async with aclosing(completer.stream(requests[0])) as pieces:
            async for piece in pieces:
                yield Piece(0, piece)
        return
    with completer.several(requests):
        async with aclosing(_all_pieces([completer.stream(request) for request in requests])) as merged:
            async for one in merged:
                yield one


async def _all_pieces(streams: Sequence[AsyncGenerator[ResponseDelta]]) -> AsyncGenerator[Piece]:
    waiting: asyncio.Queue[Piece | Exception | None] = asyncio.Queue(MERGED_PIECES)

    async def pump(prompt: int, stream: AsyncGenerator[ResponseDelta]) -> None:
        try:
            async with aclosing(stream) as pieces:
                async for one in pieces:
                    await waiting.put(Piece(prompt, one))
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
                case Piece() as piece:
                    yield piece
    finally:
        for task in tasks:
            task.cancel(reason)
        await asyncio.gather(*tasks, return_exceptions=True)
