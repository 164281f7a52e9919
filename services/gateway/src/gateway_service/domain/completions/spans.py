"""Spans of answers by OpenTelemetry's names for generative AI (semantic conventions, gen_ai)."""

from collections.abc import Callable, Mapping

from gateway_service.domain.completions.completion import CompletionRequest
from gateway_service.domain.traffic.record import CompletionRecord
from ratchet_kit import traces
from ratchet_policies import ChatPrompt

Value = str | int | float | None
ATTRIBUTES: Mapping[str, Callable[[CompletionRecord, CompletionRequest], Value]] = {
    "gen_ai.operation.name": lambda record, request: _operation(request),
    "gen_ai.provider.name": lambda record, request: "ratchet",
    "gen_ai.request.model": lambda record, request: record.version.model,
    "gen_ai.request.temperature": lambda record, request: request.sampling.temperature,
    "gen_ai.request.top_p": lambda record, request: request.sampling.top_p,
    "gen_ai.request.max_tokens": lambda record, request: request.sampling.max_tokens,
    "gen_ai.request.choice.count": lambda record, request: request.sampling.n if request.sampling.n > 1 else None,
    "gen_ai.request.seed": lambda record, request: request.sampling.seed,
    "gen_ai.response.id": lambda record, request: record.id,
    "gen_ai.response.model": lambda record, request: str(record.version),
    "gen_ai.usage.input_tokens": lambda record, request: record.prompt_tokens,
    "gen_ai.usage.output_tokens": lambda record, request: record.completion_tokens,
    "gen_ai.conversation.id": lambda record, request: record.session,
    "error.type": lambda record, request: "_OTHER" if record.error else "",
    "ratchet.policy_id": lambda record, request: record.policy_id,
    "ratchet.arm": lambda record, request: record.arm.value,
    "ratchet.release_id": lambda record, request: record.release_id,
    "ratchet.experiment_id": lambda record, request: record.experiment_id,
    "ratchet.variant": lambda record, request: record.variant,
}
"""Name -> its value for an attempt; what is empty is left out. Texts of prompts and answers are in none."""


def add(record: CompletionRecord, request: CompletionRequest) -> None:
    """The span of an attempt. Nothing while traces are off."""
    if not traces.is_on():
        return
    values = {name: value(record, request) for name, value in ATTRIBUTES.items()}
    known = {name: value for name, value in values.items() if value not in (None, "")}
    name, end = f"{_operation(request)} {record.version.model}", record.start_time + record.latency
    traces.add_span(name, record.start_time, end, known, record.error)


def _operation(request: CompletionRequest) -> str:
    return "chat" if isinstance(request.prompt, ChatPrompt) else "text_completion"
