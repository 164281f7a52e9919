"""Completions, by OpenAI's API, and their feedback."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ratchet.gateway.v1 import gateway_pb2
from ratchet_client.calls import Call, Json, Request, call, new_request_id
from ratchet_client.resource import Resource, S, unary


@dataclass(frozen=True, slots=True)
class Completion:
    """`version`: of the model, the one that answered, "<model>@<number>"."""

    id: str
    text: str
    version: str


class Chat(Resource[S]):
    @unary
    def chat(
        self,
        model: str,
        messages: str | Sequence[Mapping[str, str]],
        *,
        temperature: float = 1.0,
        max_tokens: int = 256,
        routing_key: str = "",
    ) -> Call[Completion]:
        """One chat completion.

        `messages`: one of the user's, or a whole chat of {"role": ..., "content": ...}. `model`: a name, whose release
        decides the version, or "name@number" or "name:alias". `routing_key`: requests with the same key go to the same
        version during a release.
        """
        body: dict[str, Any] = {
            "model": model,
            "messages": [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages),
            "temperature": temperature,
            "max_tokens": max_tokens,
        }
        if routing_key:
            body["user"] = routing_key
        return Call(Request("POST", "/v1/chat/completions", body=body), _completion)

    @unary
    def feedback(
        self,
        completion_id: str,
        *,
        score: float | None = None,
        problem_set: str = "",
        problem_id: str = "",
        request_id: str = "",
    ) -> Call[float]:
        """Scores a completion in [0, 1], or has the tests of a problem score it in the sandbox; returns the score."""
        request_id = request_id or new_request_id()
        request = gateway_pb2.CreateFeedbackRequest(request_id=request_id, completion_id=completion_id)
        if score is not None:
            request.score = score
        else:
            request.problem.problem_set, request.problem.problem_id = problem_set, problem_id
        return call(request, gateway_pb2.CreateFeedbackResponse, lambda reply: reply.score)


def _completion(body: Json) -> Completion:
    return Completion(body["id"], body["choices"][0]["message"]["content"], body["model"])
