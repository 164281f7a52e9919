"""The platform's services, and the names that specs may say."""

from datetime import timedelta
from typing import TypeAlias

import ratchet_benchmarks
import ratchet_rewards
from gateway_service.convert.traffic import ARMS
from gateway_service.domain import platform
from gateway_service.domain.failures import LatestFailures
from gateway_service.domain.keys.costs import Account, By, Sums
from gateway_service.domain.version_health import Health, TrafficDay
from ratchet.common.v1 import model_pb2
from ratchet.gateway.v1 import experiment_pb2, platform_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_kit import refs
from ratchet_kit.errors import invalid
from ratchet_kit.names import VersionRef
from ratchet_kit.times import duration_to_proto, timestamp_to_proto
from ratchet_kit.usage import usage_to_proto


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


def by_from_proto(by: platform_pb2.GetCostsRequest.By.ValueType) -> By:
    """Raises InvalidArgument for another number."""
    if not by:
        return By.VERSION
    if by not in platform_pb2.GetCostsRequest.By.values():
        raise invalid("by", f"must be one of {', '.join(By)}")
    return By[platform_pb2.GetCostsRequest.By.Name(by).removeprefix("BY_")]


def costs_to_proto(found: Sums) -> platform_pb2.GetCostsResponse:
    return platform_pb2.GetCostsResponse(accounts=map(_account, found.accounts), total=_account(found.whole))


def _account(one: Account) -> platform_pb2.Account:
    return platform_pb2.Account(
        name=one.name,
        runs=one.runs,
        evaluations=one.evaluations,
        answers=one.answers,
        usage=usage_to_proto(one.usage),
    )


def health_to_proto(name: str, health: platform.Health) -> platform_pb2.ServiceHealth:
    return platform_pb2.ServiceHealth(
        name=name,
        state=platform_pb2.ServiceHealth.State.Value(f"STATE_{health.state.name}"),
        latency=duration_to_proto(health.latency) if health.latency is not None else None,
        detail=health.detail,
    )


VersionRequest: TypeAlias = (
    platform_pb2.EnsureVersionLoadedRequest | platform_pb2.UnloadVersionRequest | platform_pb2.GetVersionHealthRequest
)


def version_from_fields(message: VersionRequest) -> VersionRef:
    """Raises InvalidArgument that names the field at fault."""
    return refs.version_from_proto(model_pb2.VersionRef(model=message.model, number=message.number))


def version_health_to_proto(health: Health) -> platform_pb2.GetVersionHealthResponse:
    return platform_pb2.GetVersionHealthResponse(
        days=[_day(one) for one in health.days],
        notices=[
            platform_pb2.DriftNotice(
                start_time=timestamp_to_proto(one.start_time),
                bound=one.drift.bound,
                against=refs.version_to_proto(one.against),
                message=one.sentence,
            )
            for one in health.notices
        ],
        answers=health.answers.answers,
        usage=usage_to_proto(health.answers.usage),
    )


def _day(day: TrafficDay) -> platform_pb2.TrafficDay:
    traffic = day.traffic
    p50, p95 = (
        duration_to_proto(timedelta(seconds=seconds)) if seconds else None
        for seconds in (traffic.latency_p50, traffic.latency_p95)
    )
    return platform_pb2.TrafficDay(
        start_time=timestamp_to_proto(day.start_time),
        arm=ARMS[traffic.arm],
        requests=traffic.requests,
        errors=traffic.errors,
        left=traffic.left,
        latency_p50=p50,
        latency_p95=p95,
        prompt_tokens=traffic.prompt_tokens,
        completion_tokens=traffic.completion_tokens,
        scored=traffic.scored,
        mean_score=traffic.mean_score,
    )
