"""The platform's services."""

from gateway_service.domain import platform
from ratchet.gateway.v1 import platform_pb2
from ratchet_kit.times import duration_to_proto


def health_to_proto(name: str, health: platform.Health) -> platform_pb2.ServiceHealth:
    return platform_pb2.ServiceHealth(
        name=name,
        state=platform_pb2.ServiceHealth.State.Value(f"STATE_{health.state.name}"),
        latency=duration_to_proto(health.latency) if health.latency is not None else None,
        detail=health.detail,
    )
