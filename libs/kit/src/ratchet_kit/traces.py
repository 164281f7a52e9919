"""OpenTelemetry traces across services, when a collector is configured; nothing is loaded when none is."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import grpc

Attribute = str | int | float

_on = False


def configure(service: str, endpoint: str | None) -> Callable[[], None]:
    """Sends this process's spans to `endpoint` (OTLP over gRPC) and returns what flushes and stops that.

    Without an endpoint it does nothing. Channels and servers made after it carry the trace from service to service, and
    FastAPI continues the trace of a request's `traceparent` by itself.
    """
    global _on
    if not endpoint:
        return lambda: None
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    trace.set_tracer_provider(provider)
    _on = True
    return provider.shutdown


def is_on() -> bool:
    return _on


def add_span(name: str, start: datetime, end: datetime, attributes: Mapping[str, Attribute], error: str) -> None:
    """A span of what has ended, below the present one. Nothing while traces are off. `error`: empty where there was
    none."""
    if not _on:
        return
    from opentelemetry import trace

    times = [int(time.timestamp() * 1e9) for time in (start, end)]
    span = trace.get_tracer(__name__).start_span(
        name, kind=trace.SpanKind.CLIENT, attributes=dict(attributes), start_time=times[0]
    )
    if error:
        span.set_status(trace.StatusCode.ERROR, error)
    span.end(times[1])


def server_interceptors() -> Sequence[grpc.aio.ServerInterceptor]:
    """What continues a caller's trace in a server: empty while traces are off."""
    if not _on:
        return ()
    from opentelemetry.instrumentation.grpc import aio_server_interceptor, filters

    return (aio_server_interceptor(filter_=filters.negate(filters.health_check())),)


def client_interceptors() -> Sequence[grpc.aio.ClientInterceptor]:
    """What hands the trace on to the service called: empty while traces are off."""
    if not _on:
        return ()
    from opentelemetry.instrumentation.grpc import aio_client_interceptors

    return tuple(aio_client_interceptors())
