"""Releases, with what is known of them now."""

from datetime import timedelta
from typing import Any

from gateway_service.domain.releases.findings import Bound, Finding
from gateway_service.domain.releases.release import DEFAULT_STAGES, Bounds, ReleaseSpec, Stage, State, Unproven
from gateway_service.domain.releases.releases import ReleaseView
from gateway_service.domain.traffic.sample import ArmSample
from ratchet.gateway.v1 import release_pb2
from ratchet_kit import refs
from ratchet_kit.errors import invalid
from ratchet_kit.grpc_errors import failure_to_proto
from ratchet_kit.names import VersionRef
from ratchet_kit.statistics import estimate_to_proto
from ratchet_kit.times import duration_from_proto, duration_to_proto, timestamp_to_proto

_STATES = {state: release_pb2.Release.State.Value(f"STATE_{state.name}") for state in State}
_UNPROVEN_TO_PROTO = {one: release_pb2.ReleaseSpec.Unproven.Value(f"UNPROVEN_{one.name}") for one in Unproven}
_UNPROVEN = {value: one for one, value in _UNPROVEN_TO_PROTO.items()} | {0: Unproven.HOLD}
_BOUNDS = {bound: release_pb2.BoundCheck.Bound.Value(f"BOUND_{bound.name}") for bound in Bound}


def release_spec_from_proto(message: release_pb2.ReleaseSpec) -> ReleaseSpec:
    """What is absent takes the defaults. The domain checks the values; InvalidArgument for an `unproven` that is not
    known."""
    if message.unproven not in _UNPROVEN:
        raise invalid("spec.unproven", f"must be one of {', '.join(Unproven)}")
    stages = tuple(
        Stage(
            stage.percent,
            duration_from_proto(stage.min_duration),
            stage.min_samples,
            stage.min_scored,
            duration_from_proto(stage.max_duration) if stage.HasField("max_duration") else None,
        )
        for stage in message.stages
    )
    given: dict[str, Any] = {"watch": duration_from_proto(message.watch)} if message.HasField("watch") else {}
    if message.HasField("baseline_percent"):  # 0 is not the default
        given["baseline_percent"] = message.baseline_percent
    bounds = Bounds(**{field.name: value for field, value in message.bounds.ListFields()})
    candidate = VersionRef(message.candidate.model, message.candidate.number)
    unproven = _UNPROVEN[message.unproven]
    return ReleaseSpec(candidate, message.gate_id, stages or DEFAULT_STAGES, bounds, unproven, **given)


def release_to_proto(view: ReleaseView) -> release_pb2.Release:
    release = view.release
    return release_pb2.Release(
        id=release.id,
        spec=_release_spec_to_proto(release.spec),
        state=_STATES[release.state],
        failure=failure_to_proto(release.failure),
        baseline=refs.version_to_proto(release.baseline),
        stage=release.stage,
        percent=release.percent,
        baseline_stats=_stats_to_proto(view.baseline),
        candidate_stats=_stats_to_proto(view.candidate),
        events=[
            release_pb2.ReleaseEvent(
                create_time=timestamp_to_proto(event.create_time),
                percent=event.percent,
                reason=event.reason,
                actor=event.actor,
            )
            for event in release.events
        ],
        create_time=timestamp_to_proto(release.create_time),
        end_time=timestamp_to_proto(release.end_time) if release.end_time else None,
        actor=release.actor,
        waits_for=view.waits_for,
        checks=[_check_to_proto(finding) for finding in view.findings],
    )


def _check_to_proto(finding: Finding) -> release_pb2.BoundCheck:
    check = release_pb2.BoundCheck
    state = check.STATE_BROKEN if finding.broken else check.STATE_HOLDS if finding.holds else check.STATE_UNDECIDED
    return check(
        bound=_BOUNDS[finding.bound],
        state=state,
        beyond=estimate_to_proto(finding.interval) if finding.interval else None,
        level=finding.level,
        sentence=finding.text,
    )


def _release_spec_to_proto(spec: ReleaseSpec) -> release_pb2.ReleaseSpec:
    return release_pb2.ReleaseSpec(
        candidate=refs.version_to_proto(spec.candidate),
        gate_id=spec.gate_id,
        stages=[
            release_pb2.ReleaseStage(
                percent=stage.percent,
                min_duration=duration_to_proto(stage.min_duration),
                min_samples=stage.min_samples,
                min_scored=stage.min_scored,
                max_duration=duration_to_proto(stage.deadline),
            )
            for stage in spec.stages
        ],
        bounds=release_pb2.ReleaseBounds(
            max_error_rate_increase=spec.bounds.max_error_rate_increase,
            max_latency_ratio=spec.bounds.max_latency_ratio,
            max_quality_drop=spec.bounds.max_quality_drop,
            max_left_increase=spec.bounds.max_left_increase,
        ),
        unproven=_UNPROVEN_TO_PROTO[spec.unproven],
        watch=duration_to_proto(spec.watch),
        baseline_percent=spec.baseline_percent,
    )


def _stats_to_proto(sample: ArmSample) -> release_pb2.ArmStats:
    return release_pb2.ArmStats(
        requests=sample.requests,
        errors=sample.errors,
        latency_p95=duration_to_proto(timedelta(seconds=sample.latency_p95)) if sample.latencies else None,
        scored=sample.scored,
        mean_score=sample.mean_score if sample.scored else None,
        left=sample.left,
        units=sample.failures.units,
    )
