"""Prometheus metrics under one prefix, and the port where they are read."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from ratchet_kit.errors import FailedPrecondition

PREFIX = "ratchet_"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Bucket limits for durations, from a lookup to a training step."""


def counter(name: str, help: str, labels: Sequence[str] = ()) -> Counter:
    """`ratchet_<name>_total`. Asked for twice, it is the same counter."""
    return _counter(name, help, tuple(labels))


def start_at_zero(metric: Counter, values: Iterable[str]) -> None:
    """For a metric of one label: Prometheus sees no increase in what is first read as 1, and so no first event."""
    for value in values:
        metric.labels(value)


def gauge(name: str, help: str, labels: Sequence[str] = ()) -> Gauge:
    """`ratchet_<name>`: a value that goes up and down."""
    return _gauge(name, help, tuple(labels))


def histogram(name: str, help: str, labels: Sequence[str] = (), buckets: Sequence[float] = SECONDS) -> Histogram:
    """`ratchet_<name>`, by default for seconds: end the name with `_seconds` then."""
    return _histogram(name, help, tuple(labels), tuple(buckets))


def start(port: int, host: str = "127.0.0.1", registry: CollectorRegistry = REGISTRY) -> Callable[[], None]:
    """Serves `/metrics` from a thread and returns what stops it. Port 0 serves nothing.

    Raises:
        FailedPrecondition: the port is in use.
    """
    if port == 0:
        return lambda: None
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise FailedPrecondition(f"cannot serve metrics on {host}:{port}: {error.strerror}") from error

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop


@cache
def _counter(name: str, help: str, labels: tuple[str, ...]) -> Counter:
    return Counter(PREFIX + name, help, labels)


@cache
def _gauge(name: str, help: str, labels: tuple[str, ...]) -> Gauge:
    return Gauge(PREFIX + name, help, labels, multiprocess_mode="liveall")  # of one of several workers: by its pid


@cache
def _histogram(name: str, help: str, labels: tuple[str, ...], buckets: tuple[float, ...]) -> Histogram:
    return Histogram(PREFIX + name, help, labels, buckets=buckets)
