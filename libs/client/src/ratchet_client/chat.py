"""Completions, by OpenAI's API, and their feedback."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ratchet.gateway.v1 import gateway_pb2
from ratchet_client.calls import Call, Json, Request, call, new_request_id
from ratchet_client.resource import Resource, S, unary


@dataclass(frozen=True, slots=True)
class Completion:
    """`version`: of the model, the one that answered, "<model>@<number>". `reasoning`: thoughts before it, where
    the platform reads them apart."""

    id: str
    text: str
    version: str
    reasoning: str = ""


class Chat(Resource[S]):
    @unary
    def chat(
        self,
        model: str,
        messages: str | Sequence[Mapping[str, str]],
        *,
        temperature: float = 1.0,
        max_tokens: int | None = None,
        routing_key: str = "",
    ) -> Call[Completion]:
        """One chat completion.

        `messages`: one of the user's, or a whole chat of {"role": ..., "content": ...}. `model`: a name, whose release
        decides the version, or "name@number" or "name:alias". `routing_key`: requests with the same key go to the same
        version during a release. `max_tokens`: of the answer; None: as many as the model has room for.
        """
        body: dict[str, Any] = {
            "model": model,
            "messages": [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages),
            "temperature": temperature,
        }
        if max_tokens is not None:
            body["max_tokens"] = max_tokens
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
        thumb_up: bool | None = None,
        accepted: str | None = None,
        index: int = 0,
        over_id: str | None = None,
        over_index: int = 0,
        metrics: Mapping[str, float] | None = None,
        request_id: str = "",
    ) -> Call[float]:
        """Says one thing of a completion, and returns its score. By the first of these that is given:

        `score` in [0, 1]; `thumb_up`, which is 1 or 0; `accepted`, the text that was used in place of its answer
        `index`; `over_id`, the completion (this one where empty) whose answer `over_index` is worse than its answer
        `index`; the tests of a problem, in the sandbox. Accepted texts and choices have no score: 0.

        `metrics`, alone or beside one of these, are numbers under names of your own for experiments, such as
        {"accepted_chars": 120}."""
        request_id = request_id or new_request_id()
        request = gateway_pb2.CreateFeedbackRequest(request_id=request_id, completion_id=completion_id)
        if score is not None:
            request.score = score
        elif thumb_up is not None:
            request.thumb = gateway_pb2.THUMB_UP if thumb_up else gateway_pb2.THUMB_DOWN
        elif accepted is not None:
            request.accepted.text, request.accepted.index = accepted, index
        elif over_id is not None:
            request.choice.CopyFrom(gateway_pb2.BetterAnswer(index=index, over_id=over_id, over_index=over_index))
        elif problem_set or problem_id or not metrics:
            request.problem.problem_set, request.problem.problem_id = problem_set, problem_id
        request.metrics.update(metrics or {})
        return call(request, gateway_pb2.CreateFeedbackResponse, lambda reply: reply.score)

    @unary
    def count_feedback(self, model: str, since: datetime | None = None) -> Call[int]:
        """How many answers of a model have a score: those to requests that came since then."""
        request = gateway_pb2.CountFeedbackRequest(model=model)
        if since is not None:
            request.after_time.FromDatetime(since)
        return call(request, gateway_pb2.CountFeedbackResponse, lambda reply: reply.scored)


def _completion(body: Json) -> Completion:
    said = body["choices"][0]["message"]
    return Completion(body["id"], said["content"], body["model"], said.get("reasoning_content", ""))
