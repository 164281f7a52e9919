"""Spans of requests and answers, by OpenTelemetry's own SDK."""

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from ratchet_kit import traces
from ratchet_kit.errors import Unavailable

from ..world import World

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CHAT = {"model": "starter", "messages": [{"role": "user", "content": "private"}], "temperature": 0.5, "max_tokens": 9}


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """A process has one provider for good; it is asked only while `traces` is on."""
    provider, kept = trace.get_tracer_provider(), InMemorySpanExporter()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(traces, "_on", True)
    return kept


async def test_an_answer_has_a_span_in_its_callers_trace(
    world: World, http: httpx.AsyncClient, exporter: InMemorySpanExporter
) -> None:
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    answer = (await http.post("/v1/chat/completions", json=CHAT, headers=headers)).json()
    (record,) = await world.records()
    made, request = exporter.get_finished_spans()
    assert (request.attributes or {})["url.path"] == "/v1/chat/completions"
    assert request.parent
    assert (f"{request.context.trace_id:032x}", f"{request.parent.span_id:016x}") == (TRACE, PARENT)
    assert made.parent == request.context
    assert made.name == "chat starter"
    assert made.end_time
    assert made.start_time
    assert (made.end_time - made.start_time) / 1e9 == pytest.approx(record.latency.total_seconds(), abs=1e-3)
    assert dict(made.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "ratchet",
        "gen_ai.request.model": "starter",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.response.id": answer["id"],
        "gen_ai.response.model": str(record.version),
        "gen_ai.usage.input_tokens": record.prompt_tokens,
        "gen_ai.usage.output_tokens": record.completion_tokens,
        "ratchet.policy_id": record.policy_id,
        "ratchet.arm": "none",
    }


async def test_a_failure_is_one_in_its_span(
    world: World, http: httpx.AsyncClient, exporter: InMemorySpanExporter
) -> None:
    def fail(name: str) -> None:
        raise Unavailable("no engine")

    world.engine.before_answer = fail
    assert (await http.post("/v1/chat/completions", json=CHAT)).status_code == 503
    made, request = exporter.get_finished_spans()
    assert (made.status.status_code, made.status.description) == (StatusCode.ERROR, "no engine")
    assert (made.attributes or {})["error.type"] == "_OTHER"
    assert request.status.status_code is StatusCode.ERROR
