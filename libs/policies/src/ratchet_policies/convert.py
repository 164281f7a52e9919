"""Messages, prompts, samplings, completions and policies to protobuf and back. Pure."""

from collections.abc import Iterable
from typing import TypeAlias

from ratchet.common.v1 import chat_pb2, generation_pb2, priority_pb2
from ratchet.rollout.v1 import rollout_pb2 as pb
from ratchet_kit.errors import Internal, invalid
from ratchet_kit.grpc_errors import failure_from_proto
from ratchet_kit.times import duration_from_proto
from ratchet_kit.work import Priority
from ratchet_policies.convert_nodes import purpose_to_proto
from ratchet_policies.generation import (
    Begun,
    ChatPrompt,
    Completion,
    Delta,
    Echo,
    FinishReason,
    Generation,
    Prompt,
    Sampling,
    TextPrompt,
    TokenCandidate,
    TokenPrompt,
    Tool,
    Tools,
)
from ratchet_policies.policy import EngineUsage, Policy, PolicySpec, PolicyState
from ratchet_problems import Message, ToolCall

_STATES = {
    pb.Policy.STATE_LOADING: PolicyState.LOADING,
    pb.Policy.STATE_READY: PolicyState.READY,
    pb.Policy.STATE_FAILED: PolicyState.FAILED,
    pb.Policy.STATE_UNLOADING: PolicyState.UNLOADING,
}
_FINISH_REASONS = {
    generation_pb2.FINISH_REASON_UNSPECIFIED: FinishReason.UNFINISHED,
    generation_pb2.FINISH_REASON_STOP: FinishReason.STOP,
    generation_pb2.FINISH_REASON_LENGTH: FinishReason.LENGTH,
    generation_pb2.FINISH_REASON_ABORTED: FinishReason.ABORTED,
    generation_pb2.FINISH_REASON_TOOL_CALLS: FinishReason.TOOL_CALLS,
}
_PRIORITIES = {
    priority_pb2.PRIORITY_UNSPECIFIED: Priority.NORMAL,
    priority_pb2.PRIORITY_LOW: Priority.LOW,
    priority_pb2.PRIORITY_NORMAL: Priority.NORMAL,
    priority_pb2.PRIORITY_HIGH: Priority.HIGH,
}
_PRIORITIES_TO_PROTO = {priority: value for value, priority in _PRIORITIES.items()}
_FINISH_REASONS_TO_PROTO = {reason: value for value, reason in _FINISH_REASONS.items()}

Candidates: TypeAlias = tuple[tuple[TokenCandidate, ...], ...]
"""The likeliest tokens in place of each token."""


# Policies


def load_request(spec: PolicySpec, request_id: str) -> pb.LoadPolicyRequest:
    dtype = pb.Dtype.Value(f"DTYPE_{spec.dtype.upper()}") if spec.dtype else pb.DTYPE_UNSPECIFIED
    return pb.LoadPolicyRequest(
        request_id=request_id,
        name=spec.name,
        source_uri=spec.source,
        options=pb.EngineOptions(dtype=dtype, max_model_len=spec.max_model_len, model=spec.model, sleeps=spec.sleeps),
        expected_policy_id=spec.policy_id,
        purpose=purpose_to_proto(spec.purpose),
    )


def policy_from_proto(message: pb.Policy) -> Policy:
    """Raises Internal for a state that is not known here."""
    state = _STATES.get(message.state)
    if state is None:
        raise Internal(f"rollout-service says that policy {message.name} is in state {message.state}")
    failure = failure_from_proto(message.failure) if message.HasField("failure") else None
    return Policy(
        name=message.name,
        state=state,
        policy_id=message.policy_id,
        failure=failure,
        weight_updates=message.weight_updates,
        has_chat_template=message.has_chat_template,
        settings_id=message.settings_id,
        usage=EngineUsage(
            duration_from_proto(message.usage.gpu_time),
            duration_from_proto(message.usage.cpu_time),
            message.usage.tokens,
            duration_from_proto(message.usage.gpu_busy_time),
            duration_from_proto(message.usage.gpu_watched_time),
        ),
    )


# Prompts


def prompt_from_proto(message: generation_pb2.Prompt, field: str = "prompt") -> Prompt:
    """Raises InvalidArgument, which names the field, when none is set."""
    match message.WhichOneof("prompt"):
        case "text":
            return TextPrompt(message.text, message.suffix)
        case "tokens":
            return TokenPrompt(tuple(message.tokens.ids))
        case "chat":
            tools = _tools(message.chat.tools) if message.chat.HasField("tools") else None
            begun = message.chat.begun if message.chat.HasField("begun") else None
            return ChatPrompt(
                tuple(map(_message, message.chat.messages)),
                tools,
                begun=begun and Begun(tuple(begun.token_ids), begun.messages),
            )
        case _:
            raise invalid(field, "must be a chat, a text or tokens")


def prompt_to_proto(prompt: Prompt) -> generation_pb2.Prompt:
    match prompt:
        case TextPrompt(text, suffix):
            return generation_pb2.Prompt(text=text, suffix=suffix)
        case TokenPrompt(ids):
            return generation_pb2.Prompt(tokens=generation_pb2.Tokens(ids=ids))
        case ChatPrompt(messages, tools, begun=begun):  # its chat template goes beside it: see `generate_request`
            chat = chat_pb2.Chat(
                messages=map(message_to_proto, messages),
                tools=_tools_to_proto(tools) if tools else None,
                begun=chat_pb2.Begun(token_ids=begun.ids, messages=begun.messages) if begun else None,
            )
            return generation_pb2.Prompt(chat=chat)


def _message(message: chat_pb2.ChatMessage) -> Message:
    text = "".join(part.text for part in message.content)
    return Message(message.role, text, tuple(map(_call, message.tool_calls)), message.tool_call_id)


def message_to_proto(message: Message) -> chat_pb2.ChatMessage:
    return chat_pb2.ChatMessage(
        role=message.role,
        content=[chat_pb2.ContentPart(text=message.content)],
        tool_calls=map(_call_to_proto, message.tool_calls),
        tool_call_id=message.tool_call_id,
    )


def _call(message: chat_pb2.ToolCall) -> ToolCall:
    return ToolCall(message.name, message.arguments, message.id, message.index)


def _call_to_proto(call: ToolCall) -> chat_pb2.ToolCall:
    return chat_pb2.ToolCall(id=call.id, name=call.name, arguments=call.arguments, index=call.index)


def _tools(message: chat_pb2.Tools) -> Tools:
    offered = tuple(
        Tool(tool.name, tool.description, tool.parameters, tool.strict if tool.HasField("strict") else None)
        for tool in message.offered
    )
    return Tools(offered, message.required, message.called, message.single)


def _tools_to_proto(tools: Tools) -> chat_pb2.Tools:
    offered = [
        chat_pb2.Tool(name=tool.name, description=tool.description, parameters=tool.parameters, strict=tool.strict)
        for tool in tools.offered
    ]
    return chat_pb2.Tools(offered=offered, required=tools.required, called=tools.called, single=tools.single)


# Samplings


def sampling_from_proto(message: generation_pb2.SamplingParams) -> Sampling:
    return Sampling(
        temperature=message.temperature if message.HasField("temperature") else None,
        top_p=message.top_p if message.HasField("top_p") else None,
        top_k=message.top_k if message.HasField("top_k") else None,
        max_tokens=message.max_tokens if message.HasField("max_tokens") else None,
        stop=tuple(message.stop),
        stop_token_ids=tuple(message.stop_token_ids),
        seed=message.seed if message.HasField("seed") else None,
        ignore_eos=message.ignore_eos,
        logprobs=message.logprobs,
        repetition_penalty=message.repetition_penalty if message.HasField("repetition_penalty") else None,
        n=message.n if message.HasField("n") else 1,
        top_logprobs=message.top_logprobs if message.HasField("top_logprobs") else None,
        presence_penalty=message.presence_penalty if message.HasField("presence_penalty") else None,
        frequency_penalty=message.frequency_penalty if message.HasField("frequency_penalty") else None,
        logit_bias=dict(message.logit_bias),
        json_schema=message.json_schema if message.HasField("json_schema") else None,
        echo=message.echo,
        min_p=message.min_p if message.HasField("min_p") else None,
        must_fit=message.must_fit,
    )


def sampling_to_proto(sampling: Sampling) -> generation_pb2.SamplingParams:
    return generation_pb2.SamplingParams(
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
        top_logprobs=sampling.top_logprobs,
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
        logit_bias=sampling.logit_bias,
        json_schema=sampling.json_schema,
        echo=sampling.echo,
        min_p=sampling.min_p,
        must_fit=sampling.must_fit,
    )


# Completions


def priority_from_proto(message: priority_pb2.Priority.ValueType, field: str = "priority") -> Priority:
    """Raises InvalidArgument, which names the field, for one that is not known here."""
    if message not in _PRIORITIES:
        raise invalid(field, "must be low, normal or high")
    return _PRIORITIES[message]


def generate_request(
    name: str, policy_id: str, prompt: Prompt, sampling: Sampling, priority: Priority = Priority.NORMAL
) -> pb.GenerateRequest:
    return pb.GenerateRequest(
        policy=name,
        prompt=prompt_to_proto(prompt),
        sampling=sampling_to_proto(sampling),
        expected_policy_id=policy_id,
        priority=_PRIORITIES_TO_PROTO[priority],
        chat_template=prompt.chat_template if isinstance(prompt, ChatPrompt) else "",
    )


def generation_from_proto(message: pb.GenerateResponse) -> Generation:
    return Generation(
        completions=tuple(map(completion_from_proto, message.completions)),
        policy_id=message.policy_id,
        prompt_tokens=len(message.prompt_token_ids),
        echo=_echo(message),
        prompt_ids=message.prompt_token_ids,
    )


def delta_from_proto(message: pb.StreamGenerateResponse) -> Delta:
    completion, ids = completion_from_proto(message.delta), message.prompt_token_ids
    return Delta(completion, message.policy_id, message.prompt_tokens, _echo(message), ids)


def _echo(message: pb.GenerateResponse | pb.StreamGenerateResponse) -> Echo | None:
    return Echo(message.echo.text, _candidates(message.echo.candidates)) if message.HasField("echo") else None


def echo_to_proto(echo: Echo | None) -> generation_pb2.Echo | None:
    return generation_pb2.Echo(text=echo.text, candidates=_candidates_to_proto(echo.candidates)) if echo else None


def completion_from_proto(message: generation_pb2.Completion) -> Completion:
    return Completion(
        index=message.index,
        text=message.text,
        finish_reason=_FINISH_REASONS[message.finish_reason],
        token_ids=tuple(message.token_ids),
        log_probs=tuple(message.log_probs),
        candidates=_candidates(message.candidates),
        tool_calls=tuple(map(_call, message.tool_calls)),
        stop=message.stop,
        reasoning=message.reasoning,
    )


def finish_reason_to_proto(reason: FinishReason) -> generation_pb2.FinishReason.ValueType:
    return _FINISH_REASONS_TO_PROTO[reason]


def completion_to_proto(completion: Completion) -> generation_pb2.Completion:
    return generation_pb2.Completion(
        index=completion.index,
        token_ids=completion.token_ids,
        log_probs=completion.log_probs,
        candidates=_candidates_to_proto(completion.candidates),
        text=completion.text,
        finish_reason=finish_reason_to_proto(completion.finish_reason),
        tool_calls=map(_call_to_proto, completion.tool_calls),
        stop=completion.stop,
        reasoning=completion.reasoning,
    )


def _candidates(messages: Iterable[generation_pb2.TokenCandidates]) -> Candidates:
    return tuple(
        tuple(TokenCandidate(one.token_id, one.text, one.log_prob) for one in each.candidates) for each in messages
    )


def _candidates_to_proto(candidates: Candidates) -> list[generation_pb2.TokenCandidates]:
    return [
        generation_pb2.TokenCandidates(
            candidates=[
                generation_pb2.TokenCandidate(token_id=one.token_id, text=one.text, log_prob=one.log_prob)
                for one in each
            ]
        )
        for each in candidates
    ]
