"""/v1: the API of OpenAI's clients, answered by the models, versions and aliases of the registry."""

import time
from collections.abc import Sequence

from fastapi import APIRouter, Request, Response

from gateway_service.auth import http_auth
from gateway_service.domain.completions.router import Router
from gateway_service.domain.keys.caller import caller
from gateway_service.domain.keys.key import Scope
from gateway_service.domain.ports import ModelRegistry
from gateway_service.rest.completing import Completing, described, request_of
from gateway_service.rest.express import Track
from ratchet_kit.names import ModelRef
from ratchet_kit.times import Clock
from ratchet_sessions.doors import bodies
from ratchet_sessions.doors import openai_answers as answers
from ratchet_sessions.doors.answers import seconds
from ratchet_sessions.doors.openai_requests import ChatRequest, TextRequest
from ratchet_sessions.doors.openai_writer import Writer

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
        writer = Writer(shape, seconds(self._clock.now()), sampling.n, body.with_usage)
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
