"""Protobuf to domain and back, for the gateway's own RPCs."""

from datetime import datetime, timedelta

from gateway_service.domain import platform
from gateway_service.domain.completions.completion import CompletionRequest, CompletionResponse, ResponseDelta
from gateway_service.domain.keys.key import ApiKey, Scope
from gateway_service.domain.releases.decision import Bound, Finding
from gateway_service.domain.releases.release import DEFAULT_STAGES, Bounds, ReleaseSpec, Stage, State, Unproven
from gateway_service.domain.releases.releases import ReleaseView
from gateway_service.domain.traffic.sample import ArmSample
from ratchet.common.v1 import access_pb2
from ratchet.gateway.v1 import gateway_pb2, key_pb2, platform_pb2, release_pb2
from ratchet_kit import refs
from ratchet_kit.errors import FieldViolation, InvalidArgument
from ratchet_kit.faults import Faults
from ratchet_kit.grpc_errors import failure_to_proto
from ratchet_kit.names import Location, VersionRef
from ratchet_kit.statistics import estimate_to_proto
from ratchet_kit.times import duration_from_proto, duration_to_proto, timestamp_from_proto, timestamp_to_proto
from ratchet_policies import convert as policies

STATES = {state: release_pb2.Release.State.Value(f"STATE_{state.name}") for state in State}
UNPROVEN = {one: release_pb2.ReleaseSpec.Unproven.Value(f"UNPROVEN_{one.name}") for one in Unproven}
BOUNDS = {bound: release_pb2.BoundCheck.Bound.Value(f"BOUND_{bound.name}") for bound in Bound}
_UNPROVEN = {value: one for one, value in UNPROVEN.items()} | {0: Unproven.HOLD}
SCOPES = {access_pb2.SCOPE_INFERENCE: Scope.INFERENCE, access_pb2.SCOPE_ADMIN: Scope.ADMIN}
SCOPES_TO_PROTO = {scope: value for value, scope in SCOPES.items()}


# Completions


def completion_request_from_proto(message: gateway_pb2.CompleteRequest) -> CompletionRequest:
    """Raises InvalidArgument that names the field at fault."""
    target = refs.model_from_proto(message.model, "model")
    if isinstance(target, Location):
        text = "must be a model, a version or an alias of the registry"
        raise InvalidArgument(f"model {text}", [FieldViolation("model.uri", text)])
    return CompletionRequest(
        target=target,
        prompt=policies.prompt_from_proto(message.prompt),
        sampling=policies.sampling_from_proto(message.sampling),
        routing_key=message.routing_key,
        session=message.session,
    )


def completion_response_to_proto(response: CompletionResponse) -> gateway_pb2.CompleteResponse:
    return gateway_pb2.CompleteResponse(
        id=response.id,
        version=refs.version_to_proto(response.version),
        policy_id=response.generation.policy_id,
        completions=[policies.completion_to_proto(completion) for completion in response.generation.completions],
        prompt_tokens=response.generation.prompt_tokens,
        completion_tokens=response.completion_tokens,
        echo=policies.echo_to_proto(response.generation.echo),
    )


def response_delta_to_proto(piece: ResponseDelta) -> gateway_pb2.StreamCompleteResponse:
    return gateway_pb2.StreamCompleteResponse(
        id=piece.id,
        version=refs.version_to_proto(piece.version),
        delta=policies.completion_to_proto(piece.delta.completion),
        echo=policies.echo_to_proto(piece.delta.echo),
    )


# Releases


def release_spec_from_proto(message: release_pb2.ReleaseSpec) -> ReleaseSpec:
    """What is absent takes the defaults. The domain checks the values; InvalidArgument for an `unproven` that is not
    known."""
    if message.unproven not in _UNPROVEN:
        rule = f"must be one of {', '.join(Unproven)}"
        raise InvalidArgument(f"spec.unproven {rule}", [FieldViolation("spec.unproven", rule)])
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
    watch = {"watch": duration_from_proto(message.watch)} if message.HasField("watch") else {}
    bounds = Bounds(**{field.name: value for field, value in message.bounds.ListFields()})
    candidate = VersionRef(message.candidate.model, message.candidate.number)
    unproven = _UNPROVEN[message.unproven]
    return ReleaseSpec(candidate, message.gate_id, stages or DEFAULT_STAGES, bounds, unproven, **watch)


def release_to_proto(view: ReleaseView) -> release_pb2.Release:
    release = view.release
    return release_pb2.Release(
        id=release.id,
        spec=_release_spec_to_proto(release.spec),
        state=STATES[release.state],
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
        bound=BOUNDS[finding.bound],
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
        ),
        unproven=UNPROVEN[spec.unproven],
        watch=duration_to_proto(spec.watch),
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


# Keys


def scopes_from_proto(message: key_pb2.CreateKeyRequest) -> list[Scope]:
    """Inference where none is named. Raises InvalidArgument for a scope that is not known."""
    faults = Faults()
    for scope in message.scopes:
        faults.unless(scope in SCOPES, "scopes", f"must be of {', '.join(Scope)}")
    faults.raise_if_any()
    return [SCOPES[scope] for scope in message.scopes] or [Scope.INFERENCE]


def expire_time_from_proto(message: key_pb2.CreateKeyRequest) -> datetime | None:
    return timestamp_from_proto(message.expire_time) if message.HasField("expire_time") else None


def key_to_proto(key: ApiKey) -> key_pb2.Key:
    return key_pb2.Key(
        id=key.id,
        name=key.name,
        hint=key.hint,
        scopes=sorted(SCOPES_TO_PROTO[scope] for scope in key.scopes),
        create_time=timestamp_to_proto(key.create_time),
        revoke_time=timestamp_to_proto(key.revoke_time) if key.revoke_time else None,
        models=sorted(key.models),
        expire_time=timestamp_to_proto(key.expire_time) if key.expire_time else None,
        actor=key.actor,
        revoke_actor=key.revoke_actor,
    )


# The platform


def health_to_proto(name: str, health: platform.Health) -> platform_pb2.ServiceHealth:
    return platform_pb2.ServiceHealth(
        name=name,
        state=platform_pb2.ServiceHealth.State.Value(f"STATE_{health.state.name}"),
        latency=duration_to_proto(health.latency) if health.latency is not None else None,
        detail=health.detail,
    )
