"""OpenTelemetry traces across services, when a collector is configured; nothing is loaded when none is."""

from collections.abc import Callable, Sequence

import grpc

_on = False


def configure(service: str, endpoint: str | None) -> Callable[[], None]:
    """Sends this process's spans to `endpoint` (OTLP over gRPC) and returns what flushes and stops that.

    Without an endpoint it does nothing. Channels and servers made after it carry the trace from service to service.
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
