"""Protobuf to domain and back: what the gateway's own RPCs carry, and what it says to the rollout service."""

from gateway_service.domain.completions import (
    Answer,
    AnswerDelta,
    ChatPrompt,
    ChatTurn,
    Choice,
    CompletionRequest,
    Delta,
    FinishReason,
    Generation,
    Prompt,
    Sampling,
    TextPrompt,
)
from gateway_service.domain.decisions import ArmSample
from gateway_service.domain.ports import Policy, PolicyState
from gateway_service.domain.release_desk import ReleaseView
from gateway_service.domain.releases import DEFAULT_STAGES, Bounds, ReleaseSpec, ReleaseState, Stage
from gateway_service.domain.targets import parse_target
from ratchet.gateway.v1 import gateway_pb2 as pb
from ratchet.rollout.v1 import rollout_pb2
from ratchet_kit.errors import FieldViolation, Internal, InvalidArgument
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
    ReleaseState.PREPARING: pb.Release.STATE_PREPARING,
    ReleaseState.PROGRESSING: pb.Release.STATE_PROGRESSING,
    ReleaseState.SUCCEEDED: pb.Release.STATE_SUCCEEDED,
    ReleaseState.ROLLED_BACK: pb.Release.STATE_ROLLED_BACK,
    ReleaseState.FAILED: pb.Release.STATE_FAILED,
}


# Completions


def completion_request(message: pb.CompleteRequest) -> CompletionRequest:
    """Raises InvalidArgument for a model or a prompt that is none."""
    return CompletionRequest(
        target=parse_target(message.model),
        prompt=_prompt(message),
        sampling=_sampling(message.sampling),
        routing_key=message.routing_key,
    )


def _prompt(message: pb.CompleteRequest) -> Prompt:
    match message.WhichOneof("prompt"):
        case "text":
            return TextPrompt(message.text)
        case "chat":
            return ChatPrompt(tuple(ChatTurn(turn.role, turn.content) for turn in message.chat.messages))
        case _:
            raise InvalidArgument("a prompt is needed", [FieldViolation("prompt", "must be text or chat")])


def _sampling(message: rollout_pb2.SamplingParams) -> Sampling:
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


def answer_to_proto(answer: Answer) -> pb.CompleteResponse:
    return pb.CompleteResponse(
        id=answer.id,
        version=str(answer.version),
        policy_id=answer.generation.policy_id,
        completions=[choice_to_proto(choice) for choice in answer.generation.choices],
        prompt_tokens=answer.generation.prompt_tokens,
        completion_tokens=answer.completion_tokens,
    )


def answer_delta_to_proto(piece: AnswerDelta) -> pb.StreamCompleteResponse:
    return pb.StreamCompleteResponse(id=piece.id, version=str(piece.version), delta=choice_to_proto(piece.delta.choice))


def choice_to_proto(choice: Choice) -> rollout_pb2.Completion:
    return rollout_pb2.Completion(
        index=choice.index,
        token_ids=choice.token_ids,
        log_probs=choice.log_probs,
        text=choice.text,
        finish_reason=FINISH_REASONS_TO_PROTO[choice.finish_reason],
    )


# What the rollout service is told, and says


def generate_request(name: str, policy_id: str, prompt: Prompt, sampling: Sampling) -> rollout_pb2.GenerateRequest:
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


def generation(message: rollout_pb2.GenerateResponse) -> Generation:
    return Generation(
        choices=tuple(_choice(completion) for completion in message.completions),
        policy_id=message.policy_id,
        prompt_tokens=len(message.prompt_token_ids),
    )


def delta(message: rollout_pb2.GenerateStreamResponse) -> Delta:
    return Delta(_choice(message.delta), message.policy_id, message.prompt_tokens)


def _choice(message: rollout_pb2.Completion) -> Choice:
    return Choice(
        index=message.index,
        text=message.text,
        finish_reason=FINISH_REASONS[message.finish_reason],
        token_ids=tuple(message.token_ids),
        log_probs=tuple(message.log_probs),
    )


def policy(message: rollout_pb2.Policy) -> Policy:
    """Raises Internal for a state that this gateway does not know."""
    state = POLICY_STATES.get(message.state)
    if state is None:
        raise Internal(f"rollout service says that policy {message.name} is in state {message.state}")
    return Policy(message.name, state, message.policy_id, message.error)


# Releases


def release_spec(message: pb.ReleaseSpec) -> ReleaseSpec:
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
            pb.ReleaseEvent(time=timestamp_to_proto(event.time), percent=event.percent, reason=event.reason)
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
