"""/v1/messages: the API of Anthropic's clients, over the same path as a chat of OpenAI's."""

import time
from collections.abc import Sequence

from fastapi import APIRouter, Request, Response

from gateway_service.auth import http_auth
from gateway_service.domain.completions.completer import Completer
from gateway_service.domain.keys.key import Scope
from gateway_service.rest.completing import Completing, described, request_of
from gateway_service.rest.express import Track
from ratchet_kit.http_server import while_connected
from ratchet_policies import Sampling
from ratchet_sessions.doors import anthropic_answers as answers
from ratchet_sessions.doors import bodies
from ratchet_sessions.doors.anthropic_requests import CountRequest, MessagesRequest

PATH = "/v1/messages"
BODIES = (MessagesRequest, CountRequest)


class Messages:
    """They read their bodies themselves, as completions do."""

    def __init__(self, completing: Completing, completer: Completer) -> None:
        self._completing = completing
        self._completer = completer

    @property
    def tracks(self) -> Sequence[Track]:
        return (
            Track(PATH, Scope.INFERENCE, self.create),
            Track(f"{PATH}/count_tokens", Scope.INFERENCE, self.count_tokens),
        )

    async def create(self, http: Request) -> Response:
        """Answers a conversation, in the shape of Anthropic's Messages."""
        begin, body = time.perf_counter(), await bodies.read_as(http, MessagesRequest)
        body.refuse_unsupported()
        user = body.metadata.user_id if body.metadata else None
        request = request_of(http, body.model, body.prompt(), body.sampling(), user)
        return await self._completing.answer(http, [request], answers.Writer(), begin=begin, stream=bool(body.stream))

    async def count_tokens(self, http: Request) -> Response:
        """Counts the tokens of a conversation, as the model reads it."""
        body = await bodies.read_as(http, CountRequest)
        body.refuse_unsupported()
        request = request_of(http, body.model, body.prompt(), Sampling(), None)
        count = await while_connected(http.receive, self._completer.count_tokens(request))
        return Response(answers.TokenCount(input_tokens=count).model_dump_json(), media_type="application/json")


def build(messages: Messages) -> APIRouter:
    api = APIRouter(tags=["anthropic"], dependencies=[http_auth(Scope.INFERENCE)])
    api.post(PATH, **described(MessagesRequest, answers.MessageObject))(messages.create)
    counted = described(CountRequest, answers.TokenCount) | {"responses": {200: {"model": answers.TokenCount}}}
    api.post(f"{PATH}/count_tokens", **counted)(messages.count_tokens)
    return api
