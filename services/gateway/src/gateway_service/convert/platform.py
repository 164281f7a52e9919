"""The platform's services, and the names that specs may say."""

import ratchet_benchmarks
import ratchet_rewards
from gateway_service.domain import platform
from gateway_service.domain.failures import LatestFailures
from ratchet.gateway.v1 import experiment_pb2, platform_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_kit.times import duration_to_proto, timestamp_to_proto


def catalogue_to_proto() -> platform_pb2.GetCatalogueResponse:
    """Lists what the libraries and the protos define: nothing is named here."""
    return platform_pb2.GetCatalogueResponse(
        algorithms=[name for name, number in trainer_pb2.Algorithm.items() if number],
        rewards=ratchet_rewards.NAMES,
        problem_sets=ratchet_benchmarks.OWN,
        benchmarks=ratchet_benchmarks.BENCHMARKS,
        measures=filter(None, experiment_pb2.ExperimentMetric.Measure.values()),
    )


def failures_to_proto(found: LatestFailures) -> platform_pb2.GetFailuresResponse:
    failures = (
        platform_pb2.FailedResource(
            resource=platform_pb2.FailedResource.Resource.Value(f"RESOURCE_{one.kind.name}"),
            id=one.id,
            name=one.name,
            message=one.message,
            end_time=timestamp_to_proto(one.end_time),
        )
        for one in found.failures
    )
    return platform_pb2.GetFailuresResponse(failures=failures, missing=found.missing)


def health_to_proto(name: str, health: platform.Health) -> platform_pb2.ServiceHealth:
    return platform_pb2.ServiceHealth(
        name=name,
        state=platform_pb2.ServiceHealth.State.Value(f"STATE_{health.state.name}"),
        latency=duration_to_proto(health.latency) if health.latency is not None else None,
        detail=health.detail,
    )
