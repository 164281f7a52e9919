"""POST /generate: the simplest door. A prompt in, a text out; /v1 has everything else."""

import time

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from gateway_service.auth import http_auth
from gateway_service.convert import headers_of
from gateway_service.domain.completions.completer import Completer
from gateway_service.domain.completions.completion import CompletionRequest
from gateway_service.domain.keys.key import Scope
from ratchet_kit.http_server import while_connected
from ratchet_kit.names import ModelRef
from ratchet_policies import ChatPrompt, Sampling
from ratchet_problems import Message
from ratchet_sessions.doors import bodies
from ratchet_sessions.doors.numbers import Number, Whole
from ratchet_sessions.doors.openai_requests import MAX_INT32
from ratchet_sessions.doors.texts import Text

PATH = "/generate"


class GenerateRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    model: Text = Field(description='"name", "name@version" or "name:alias".')
    prompt: Text = Field(description="The user's message.")
    max_tokens: Whole | None = Field(default=None, ge=1, le=MAX_INT32)
    temperature: Number | None = Field(default=None, ge=0, le=2)


class GenerateResponse(BaseModel):
    text: str
    id: str = Field(description="For feedback.")
    model: str = Field(description='The version that answered, "starter@2".')


def build(completer: Completer) -> APIRouter:
    api = APIRouter(tags=["generate"], dependencies=[http_auth(Scope.INFERENCE)])

    content = {"application/json": {"schema": GenerateRequest.model_json_schema()}}

    @api.post(PATH, openapi_extra={"requestBody": {"required": True, "content": content}})
    async def generate(http: Request, response: Response) -> GenerateResponse:
        """Answers a prompt with a text."""
        begin = time.perf_counter()
        body = await bodies.read_as(http, GenerateRequest)
        prompt = ChatPrompt((Message("user", body.prompt),))
        sampling = Sampling(temperature=body.temperature, max_tokens=body.max_tokens, must_fit=True)
        request = CompletionRequest(ModelRef.parse_registered(body.model), prompt, sampling)
        answer = await while_connected(http.receive, completer.complete(request))
        response.headers.update(headers_of(answer, time.perf_counter() - begin))
        (completion,) = answer.generation.completions
        return GenerateResponse(text=completion.text, id=answer.id, model=str(answer.version))

    return api
