"""Prompts, samplings, completions and policies to protobuf and back. Pure."""

from ratchet.rollout.v1 import rollout_pb2 as pb
from ratchet_kit.errors import Internal
from ratchet_policies.generation import (
    ChatPrompt,
    Completion,
    Delta,
    FinishReason,
    Generation,
    Prompt,
    Sampling,
    TextPrompt,
    TokenPrompt,
)
from ratchet_policies.policy import Policy, PolicySpec, PolicyState

_STATES = {
    pb.Policy.STATE_LOADING: PolicyState.LOADING,
    pb.Policy.STATE_READY: PolicyState.READY,
    pb.Policy.STATE_FAILED: PolicyState.FAILED,
    pb.Policy.STATE_UNLOADING: PolicyState.UNLOADING,
}
_FINISH_REASONS = {
    pb.FINISH_REASON_UNSPECIFIED: FinishReason.UNFINISHED,
    pb.FINISH_REASON_STOP: FinishReason.STOP,
    pb.FINISH_REASON_LENGTH: FinishReason.LENGTH,
    pb.FINISH_REASON_ABORTED: FinishReason.ABORTED,
}
_FINISH_REASONS_TO_PROTO = {reason: value for value, reason in _FINISH_REASONS.items()}


def load_request(spec: PolicySpec, request_id: str) -> pb.LoadPolicyRequest:
    return pb.LoadPolicyRequest(
        request_id=request_id,
        name=spec.name,
        source=spec.source,
        options=pb.EngineOptions(dtype=spec.dtype, max_model_len=spec.max_model_len),
        expected_policy_id=spec.policy_id,
    )


def policy_from_proto(message: pb.Policy) -> Policy:
    """Raises Internal for a state that is not known here."""
    state = _STATES.get(message.state)
    if state is None:
        raise Internal(f"rollout-service says that policy {message.name} is in state {message.state}")
    return Policy(message.name, state, message.policy_id, message.error, message.weight_updates)


def generate_request(name: str, policy_id: str, prompt: Prompt, sampling: Sampling) -> pb.GenerateRequest:
    request = pb.GenerateRequest(policy=name, expected_policy_id=policy_id, sampling=sampling_to_proto(sampling))
    match prompt:
        case TextPrompt(text):
            request.text = text
        case TokenPrompt(ids):
            request.tokens.CopyFrom(pb.TokenPrompt(ids=ids))
        case ChatPrompt(messages):
            chat = [pb.ChatMessage(role=message.role, content=message.content) for message in messages]
            request.chat.CopyFrom(pb.ChatPrompt(messages=chat))
    return request


def sampling_to_proto(sampling: Sampling) -> pb.SamplingParams:
    return pb.SamplingParams(
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


def sampling_from_proto(message: pb.SamplingParams) -> Sampling:
    return Sampling(
        temperature=message.temperature if message.HasField("temperature") else None,
        top_p=message.top_p if message.HasField("top_p") else None,
        top_k=message.top_k,
        max_tokens=message.max_tokens,
        stop=tuple(message.stop),
        stop_token_ids=tuple(message.stop_token_ids),
        seed=message.seed if message.HasField("seed") else None,
        ignore_eos=message.ignore_eos,
        logprobs=message.logprobs,
        repetition_penalty=message.repetition_penalty if message.HasField("repetition_penalty") else None,
        n=message.n or 1,
    )


def generation_from_proto(message: pb.GenerateResponse) -> Generation:
    return Generation(
        completions=tuple(completion_from_proto(completion) for completion in message.completions),
        policy_id=message.policy_id,
        prompt_tokens=len(message.prompt_token_ids),
    )


def delta_from_proto(message: pb.GenerateStreamResponse) -> Delta:
    return Delta(completion_from_proto(message.delta), message.policy_id, message.prompt_tokens)


def completion_from_proto(message: pb.Completion) -> Completion:
    return Completion(
        index=message.index,
        text=message.text,
        finish_reason=_FINISH_REASONS[message.finish_reason],
        token_ids=tuple(message.token_ids),
        log_probs=tuple(message.log_probs),
    )


def completion_to_proto(completion: Completion) -> pb.Completion:
    return pb.Completion(
        index=completion.index,
        token_ids=completion.token_ids,
        log_probs=completion.log_probs,
        text=completion.text,
        finish_reason=_FINISH_REASONS_TO_PROTO[completion.finish_reason],
    )
