"""/v1/responses: OpenAI's Responses API, over the same path as a chat. It keeps no answer."""

import time
from collections.abc import Sequence

from fastapi import APIRouter, Request, Response

from gateway_service.auth import http_auth
from gateway_service.domain.keys.key import Scope
from gateway_service.rest.completing import Completing, described, request_of
from gateway_service.rest.express import Track
from ratchet_kit.times import Clock
from ratchet_sessions.doors import bodies
from ratchet_sessions.doors import responses_answers as answers
from ratchet_sessions.doors.answers import seconds
from ratchet_sessions.doors.responses_requests import ResponsesRequest

PATH = "/v1/responses"
BODIES = (ResponsesRequest,)


class Responses:
    """They read their bodies themselves, as completions do."""

    def __init__(self, completing: Completing, clock: Clock) -> None:
        self._completing = completing
        self._clock = clock

    @property
    def tracks(self) -> Sequence[Track]:
        return (Track(PATH, Scope.INFERENCE, self.create),)

    async def create(self, http: Request) -> Response:
        """Answers a text or a conversation, in the shape of OpenAI's Responses."""
        begin, body = time.perf_counter(), await bodies.read_as(http, ResponsesRequest)
        body.refuse_unsupported()
        request = request_of(http, body.model, body.prompt(), body.sampling(), body.user)
        writer = answers.Writer(body, seconds(self._clock.now()))
        return await self._completing.answer(http, [request], writer, begin=begin, stream=bool(body.stream))


def build(responses: Responses) -> APIRouter:
    api = APIRouter(tags=["openai"], dependencies=[http_auth(Scope.INFERENCE)])
    api.post(PATH, **described(ResponsesRequest, answers.ResponseObject))(responses.create)
    return api
