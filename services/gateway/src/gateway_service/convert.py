"""Protobuf to domain and back: the gateway's own RPCs, and those of the rollout service that it calls."""

from gateway_service.domain.completions.completion import Completion, CompletionDelta, CompletionRequest
from gateway_service.domain.releases.release import DEFAULT_STAGES, Bounds, ReleaseSpec, Stage, State
from gateway_service.domain.releases.releases import ReleaseView
from gateway_service.domain.serving.generation import (
    ChatPrompt,
    ChatTurn,
    Choice,
    Delta,
    FinishReason,
    Generation,
    Prompt,
    Sampling,
    TextPrompt,
)
from gateway_service.domain.serving.ports import Policy, PolicyState
from gateway_service.domain.traffic.sample import ArmSample
from ratchet.gateway.v1 import gateway_pb2 as pb
from ratchet.rollout.v1 import rollout_pb2
from ratchet_kit.errors import FieldViolation, Internal, InvalidArgument
from ratchet_kit.names import ModelRef
from ratchet_kit.times import duration_from_proto, duration_to_proto, timestamp_to_proto

FINISH_REASONS = {
    rollout_pb2.FINISH_REASON_UNSPECIFIED: FinishReason.UNFINISHED,
    rollout_pb2.FINISH_REASON_STOP: FinishReason.STOP,
    rollout_pb2.FINISH_REASON_LENGTH: FinishReason.LENGTH,
    rollout_pb2.FINISH_REASON_ABORTED: FinishReason.ABORTED,
}
FINISH_REASONS_TO_PROTO = {reason: value for value, reason in FINISH_REASONS.items()}

POLICY_STATES = {
    rollout_pb2.Policy.STATE_LOADING: PolicyState.LOADING,
    rollout_pb2.Policy.STATE_READY: PolicyState.READY,
    rollout_pb2.Policy.STATE_FAILED: PolicyState.FAILED,
    rollout_pb2.Policy.STATE_UNLOADING: PolicyState.UNLOADING,
}

RELEASE_STATES = {
    State.PREPARING: pb.Release.STATE_PREPARING,
    State.PROGRESSING: pb.Release.STATE_PROGRESSING,
    State.SUCCEEDED: pb.Release.STATE_SUCCEEDED,
    State.ROLLED_BACK: pb.Release.STATE_ROLLED_BACK,
    State.FAILED: pb.Release.STATE_FAILED,
}


# Completions


def completion_request_from_proto(message: pb.CompleteRequest) -> CompletionRequest:
    """Raises InvalidArgument for a model that is not a name, or without a prompt."""
    return CompletionRequest(
        target=ModelRef.parse_registered(message.model),
        prompt=_prompt_from_proto(message),
        sampling=_sampling_from_proto(message.sampling),
        routing_key=message.routing_key,
    )


def _prompt_from_proto(message: pb.CompleteRequest) -> Prompt:
    match message.WhichOneof("prompt"):
        case "text":
            return TextPrompt(message.text)
        case "chat":
            return ChatPrompt(tuple(ChatTurn(turn.role, turn.content) for turn in message.chat.messages))
        case _:
            raise InvalidArgument("a prompt is needed", [FieldViolation("prompt", "must be text or chat")])


def _sampling_from_proto(message: rollout_pb2.SamplingParams) -> Sampling:
    def given(name: str) -> float | None:
        return getattr(message, name) if message.HasField(name) else None  # type: ignore[arg-type]

    return Sampling(
        temperature=given("temperature"),
        top_p=given("top_p"),
        top_k=message.top_k,
        max_tokens=message.max_tokens,
        stop=tuple(message.stop),
        stop_token_ids=tuple(message.stop_token_ids),
        seed=message.seed if message.HasField("seed") else None,
        ignore_eos=message.ignore_eos,
        logprobs=message.logprobs,
        repetition_penalty=given("repetition_penalty"),
        n=message.n or 1,
    )


def completion_to_proto(completion: Completion) -> pb.CompleteResponse:
    return pb.CompleteResponse(
        id=completion.id,
        version=str(completion.version),
        policy_id=completion.generation.policy_id,
        completions=[choice_to_proto(choice) for choice in completion.generation.choices],
        prompt_tokens=completion.generation.prompt_tokens,
        completion_tokens=completion.completion_tokens,
    )


def completion_delta_to_proto(piece: CompletionDelta) -> pb.StreamCompleteResponse:
    return pb.StreamCompleteResponse(id=piece.id, version=str(piece.version), delta=choice_to_proto(piece.delta.choice))


def choice_to_proto(choice: Choice) -> rollout_pb2.Completion:
    return rollout_pb2.Completion(
        index=choice.index,
        token_ids=choice.token_ids,
        log_probs=choice.log_probs,
        text=choice.text,
        finish_reason=FINISH_REASONS_TO_PROTO[choice.finish_reason],
    )


# What the rollout service is asked, and answers


def generate_request_to_proto(
    name: str, policy_id: str, prompt: Prompt, sampling: Sampling
) -> rollout_pb2.GenerateRequest:
    request = rollout_pb2.GenerateRequest(
        policy=name, expected_policy_id=policy_id, sampling=sampling_to_proto(sampling)
    )
    match prompt:
        case TextPrompt(text):
            request.text = text
        case ChatPrompt(turns):
            messages = [rollout_pb2.ChatMessage(role=turn.role, content=turn.content) for turn in turns]
            request.chat.CopyFrom(rollout_pb2.ChatPrompt(messages=messages))
    return request


def sampling_to_proto(sampling: Sampling) -> rollout_pb2.SamplingParams:
    return rollout_pb2.SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        max_tokens=sampling.max_tokens,
        stop=sampling.stop,
        stop_token_ids=sampling.stop_token_ids,
        seed=sampling.seed,
        ignore_eos=sampling.ignore_eos,
        logprobs=sampling.logprobs,
        repetition_penalty=sampling.repetition_penalty,
        n=sampling.n,
    )


def generation_from_proto(message: rollout_pb2.GenerateResponse) -> Generation:
    return Generation(
        choices=tuple(choice_from_proto(completion) for completion in message.completions),
        policy_id=message.policy_id,
        prompt_tokens=len(message.prompt_token_ids),
    )


def delta_from_proto(message: rollout_pb2.GenerateStreamResponse) -> Delta:
    return Delta(choice_from_proto(message.delta), message.policy_id, message.prompt_tokens)


def choice_from_proto(message: rollout_pb2.Completion) -> Choice:
    return Choice(
        index=message.index,
        text=message.text,
        finish_reason=FINISH_REASONS[message.finish_reason],
        token_ids=tuple(message.token_ids),
        log_probs=tuple(message.log_probs),
    )


def policy_from_proto(message: rollout_pb2.Policy) -> Policy:
    """Raises Internal for a state that this gateway does not know."""
    state = POLICY_STATES.get(message.state)
    if state is None:
        raise Internal(f"rollout service says that policy {message.name} is in state {message.state}")
    return Policy(message.name, state, message.policy_id, message.error)


# Releases


def release_spec_from_proto(message: pb.ReleaseSpec) -> ReleaseSpec:
    """Absent stages and bounds take the defaults."""
    stages = tuple(
        Stage(stage.percent, duration_from_proto(stage.min_duration), stage.min_samples) for stage in message.stages
    )
    usual = Bounds()
    bounds = Bounds(
        max_error_rate_increase=message.bounds.max_error_rate_increase or usual.max_error_rate_increase,
        max_latency_ratio=message.bounds.max_latency_ratio or usual.max_latency_ratio,
        max_quality_drop=message.bounds.max_quality_drop or usual.max_quality_drop,
    )
    return ReleaseSpec(message.model, message.candidate, message.gate_id, stages or DEFAULT_STAGES, bounds)


def release_to_proto(view: ReleaseView) -> pb.Release:
    release = view.release
    return pb.Release(
        id=release.id,
        spec=_spec_to_proto(release.spec),
        state=RELEASE_STATES[release.state],
        baseline=release.baseline,
        stage=release.stage,
        percent=release.percent,
        baseline_stats=_stats_to_proto(view.baseline),
        candidate_stats=_stats_to_proto(view.candidate),
        events=[
            pb.ReleaseEvent(time=timestamp_to_proto(event.create_time), percent=event.percent, reason=event.reason)
            for event in release.events
        ],
        error=release.error,
        create_time=timestamp_to_proto(release.create_time),
        end_time=timestamp_to_proto(release.end_time) if release.end_time else None,
    )


def _spec_to_proto(spec: ReleaseSpec) -> pb.ReleaseSpec:
    return pb.ReleaseSpec(
        model=spec.model,
        candidate=spec.candidate,
        gate_id=spec.gate_id,
        stages=[
            pb.ReleaseStage(
                percent=stage.percent,
                min_duration=duration_to_proto(stage.min_duration),
                min_samples=stage.min_samples,
            )
            for stage in spec.stages
        ],
        bounds=pb.ReleaseBounds(
            max_error_rate_increase=spec.bounds.max_error_rate_increase,
            max_latency_ratio=spec.bounds.max_latency_ratio,
            max_quality_drop=spec.bounds.max_quality_drop,
        ),
    )


def _stats_to_proto(sample: ArmSample) -> pb.ArmStats:
    return pb.ArmStats(
        requests=sample.requests,
        errors=sample.errors,
        latency_p95_s=sample.latency_p95,
        scored=sample.scored,
        mean_score=sample.mean_score,
    )
