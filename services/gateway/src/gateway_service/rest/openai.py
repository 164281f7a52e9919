"""/v1: the API of OpenAI's clients, answered by the models, versions and aliases of the registry."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response

from gateway_service.auth import http_auth
from gateway_service.domain.completions.completer import Completer
from gateway_service.domain.completions.completion import CompletionRequest, CompletionResponse, ResponseDelta
from gateway_service.domain.completions.router import Router
from gateway_service.domain.keys.caller import caller
from gateway_service.domain.keys.key import Scope
from gateway_service.domain.ports import ModelRegistry
from gateway_service.rest import openai_shapes as shapes
from gateway_service.rest import sse
from gateway_service.rest.errors import openai_error_body
from ratchet_kit.errors import RatchetError
from ratchet_kit.http_server import while_connected
from ratchet_kit.names import ModelRef
from ratchet_kit.times import Clock
from ratchet_policies import ChatPrompt, Completion, FinishReason, Prompt, TextPrompt

FINISH_REASONS = {
    FinishReason.UNFINISHED: None,
    FinishReason.STOP: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.ABORTED: "length",
}
"""OpenAI has no reason for an aborted answer; like "length" it says that the text is not complete."""
Session = Annotated[str | None, Header(alias="x-ratchet-session", description="What experiments by sessions assign.")]
RoutingKey = Annotated[str | None, Header(alias="x-ratchet-routing-key", description="Takes the place of `user`.")]


def build(completer: Completer, router: Router, registry: ModelRegistry, clock: Clock) -> APIRouter:
    api = APIRouter(prefix="/v1", tags=["openai"], dependencies=[http_auth(Scope.INFERENCE)])

    @api.post("/chat/completions", response_model=shapes.ChatCompletion)
    async def chat_completions(
        http: Request,
        body: shapes.ChatRequest,
        response: Response,
        routing_key: RoutingKey = None,
        session: Session = None,
    ) -> Any:
        prompt = ChatPrompt(tuple(message.to_chat() for message in body.messages))
        return await answer(CHAT, http, body, prompt, routing_key, session, response)

    @api.post("/completions", response_model=shapes.TextCompletion)
    async def completions(
        http: Request,
        body: shapes.TextRequest,
        response: Response,
        routing_key: RoutingKey = None,
        session: Session = None,
    ) -> Any:
        return await answer(TEXT, http, body, TextPrompt(body.text()), routing_key, session, response)

    @api.get("/models")
    async def list_models() -> shapes.ModelList:
        """The models of the key. A request names one as "name", "name@version" or "name:alias"."""
        models = [model for model in await registry.models() if caller().may_call(model.name)]
        return shapes.ModelList(
            data=[shapes.ModelCard(id=model.name, created=_seconds(model.create_time)) for model in models]
        )

    @api.get("/models/{model:path}")
    async def get_model(model: str) -> shapes.ModelCard:
        """A model, a version or an alias that completions can be requested of."""
        route = await router.route(ModelRef.parse_registered(model), "")
        version = await registry.version(route.version)
        return shapes.ModelCard(id=model, created=_seconds(version.create_time))

    async def answer(
        shape: Shape,
        http: Request,
        body: shapes.ChatRequest | shapes.TextRequest,
        prompt: Prompt,
        routing_key: str | None,
        session: str | None,
        response: Response,
    ) -> Any:
        body.refuse_unsupported()
        request = CompletionRequest(
            ModelRef.parse_registered(body.model),
            prompt,
            body.sampling(),
            routing_key or body.user or "",
            session or "",
        )
        now = _seconds(clock.now())
        if not body.stream:
            reply = await while_connected(http.receive, completer.complete(request))
            response.headers.update(_headers(reply))
            return shape.whole(reply, now)
        pieces = await sse.started(completer.stream(request))
        first = await anext(pieces)
        chunks = _chunks(shape, first, pieces, now, body.with_usage)
        return sse.response(sse.with_pings(chunks), _headers(first))

    return api


def _headers(answer: CompletionResponse | ResponseDelta) -> dict[str, str]:
    policy_id = answer.generation.policy_id if isinstance(answer, CompletionResponse) else answer.delta.policy_id
    return {"x-ratchet-version": str(answer.version), "x-ratchet-policy-id": policy_id}


async def _chunks(
    shape: "Shape", first: ResponseDelta, rest: AsyncGenerator[ResponseDelta], created: int, with_usage: bool
) -> AsyncGenerator[str]:
    """The events of a stream; a fault after the first piece is an event too, and the last."""
    head = {
        "id": first.id,
        "object": shape.chunk,
        "created": created,
        "model": str(first.version),
        "system_fingerprint": first.delta.policy_id,
    }
    seen: set[int] = set()
    usage = shapes.Usage(prompt_tokens=0, completion_tokens=0, total_tokens=0)

    def chunk(piece: ResponseDelta) -> str:
        choice = piece.delta.completion
        usage.prompt_tokens += piece.delta.prompt_tokens
        usage.completion_tokens += len(choice.token_ids)
        usage.total_tokens = usage.prompt_tokens + usage.completion_tokens
        opens = choice.index not in seen
        seen.add(choice.index)
        return sse.event(head | {"choices": [shape.delta(choice, opens)]})

    try:
        yield chunk(first)
        async for piece in rest:
            yield chunk(piece)
    except RatchetError as error:
        yield sse.event(openai_error_body(error))
        return
    if with_usage:
        yield sse.event(head | {"choices": [], "usage": usage.model_dump()})
    yield sse.event("[DONE]")


def _whole_chat(answer: CompletionResponse, created: int) -> shapes.ChatCompletion:
    return shapes.ChatCompletion(
        id=answer.id,
        created=created,
        model=str(answer.version),
        system_fingerprint=answer.generation.policy_id,
        choices=[
            shapes.ChatChoice(
                index=choice.index,
                message=shapes.AnswerMessage(content=choice.text),
                logprobs=_chat_logprobs(choice),
                finish_reason=FINISH_REASONS[choice.finish_reason] or "stop",
            )
            for choice in answer.generation.completions
        ],
        usage=_usage(answer),
    )


def _whole_text(answer: CompletionResponse, created: int) -> shapes.TextCompletion:
    return shapes.TextCompletion(
        id=answer.id,
        created=created,
        model=str(answer.version),
        system_fingerprint=answer.generation.policy_id,
        choices=[
            shapes.TextChoice(
                index=choice.index,
                text=choice.text,
                logprobs=_text_logprobs(choice),
                finish_reason=FINISH_REASONS[choice.finish_reason] or "stop",
            )
            for choice in answer.generation.completions
        ],
        usage=_usage(answer),
    )


def _chat_delta(choice: Completion, opens: bool) -> dict[str, Any]:
    delta = {"content": choice.text} if choice.text or opens else {}
    logprobs = _chat_logprobs(choice)
    return {
        "index": choice.index,
        "delta": {"role": "assistant"} | delta if opens else delta,
        "logprobs": logprobs.model_dump() if logprobs else None,
        "finish_reason": FINISH_REASONS[choice.finish_reason],
    }


def _text_delta(choice: Completion, opens: bool) -> dict[str, Any]:
    logprobs = _text_logprobs(choice)
    return {
        "index": choice.index,
        "text": choice.text,
        "logprobs": logprobs.model_dump() if logprobs else None,
        "finish_reason": FINISH_REASONS[choice.finish_reason],
    }


@dataclass(frozen=True, slots=True)
class Shape:
    """How one endpoint writes an answer: whole, and in chunks."""

    whole: Callable[[CompletionResponse, int], shapes.ChatCompletion | shapes.TextCompletion]
    chunk: str
    delta: Callable[[Completion, bool], dict[str, Any]]


CHAT = Shape(_whole_chat, "chat.completion.chunk", _chat_delta)
TEXT = Shape(_whole_text, "text_completion", _text_delta)


def _usage(answer: CompletionResponse) -> shapes.Usage:
    prompt, completion = answer.generation.prompt_tokens, answer.completion_tokens
    return shapes.Usage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion)


def _chat_logprobs(choice: Completion) -> shapes.ChatLogprobs | None:
    if not choice.log_probs:
        return None
    pairs = zip(choice.token_ids, choice.log_probs, strict=True)
    content = [shapes.TokenLogprob(token=f"token_id:{token}", logprob=logprob) for token, logprob in pairs]
    return shapes.ChatLogprobs(content=content)


def _text_logprobs(choice: Completion) -> shapes.TextLogprobs | None:
    if not choice.log_probs:
        return None
    tokens = [f"token_id:{token}" for token in choice.token_ids]
    return shapes.TextLogprobs(tokens=tokens, token_logprobs=list(choice.log_probs))


def _seconds(time: datetime) -> int:
    return int(time.timestamp())
