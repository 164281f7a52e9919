"""Protos to the domain and back. Pure. A wrong request raises InvalidArgument with every field at fault."""

import re
from collections.abc import AsyncIterator

from ratchet.rollout.v1 import rollout_pb2 as pb
from ratchet_kit.errors import FieldViolation, InvalidArgument
from ratchet_kit.faults import Faults
from ratchet_kit.pages import Page
from ratchet_kit.times import duration_to_proto, timestamp_to_proto
from rollout_service.domain.generation import (
    ChatMessage,
    ChatPrompt,
    Completion,
    EngineOutput,
    FinishReason,
    Generation,
    GenerationRequest,
    Prompt,
    Sampling,
    TextPrompt,
    TokenPrompt,
)
from rollout_service.domain.policies import LoadPolicy
from rollout_service.domain.policy import EngineOptions, Policy, PolicyId, PolicyName, State
from rollout_service.domain.weights import Chunk, TensorHeader, WeightStream, WeightUpdate, WeightUpdateResult

DTYPES = ("auto", "float32", "bfloat16", "float16")
MAX_COMPLETIONS = 256
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
_POLICY_ID = re.compile(r"sha256:[0-9a-f]{64}")

_STATES = {
    State.LOADING: pb.Policy.STATE_LOADING,
    State.READY: pb.Policy.STATE_READY,
    State.FAILED: pb.Policy.STATE_FAILED,
    State.UNLOADING: pb.Policy.STATE_UNLOADING,
}
_REASONS = {
    None: pb.FINISH_REASON_UNSPECIFIED,
    FinishReason.STOP: pb.FINISH_REASON_STOP,
    FinishReason.LENGTH: pb.FINISH_REASON_LENGTH,
    FinishReason.ABORTED: pb.FINISH_REASON_ABORTED,
}


def load_policy_from_proto(request: pb.LoadPolicyRequest) -> LoadPolicy:
    """Raises InvalidArgument."""
    faults = Faults()
    faults.unless(_NAME.fullmatch(request.name), "name", "must be 1 to 100 letters, digits, '.', '_', '@' or '-'")
    faults.unless(request.source, "source", "must be a folder or an fsspec URL")
    options = request.options
    dtype = options.dtype or "auto"
    at = faults.under("options")
    at.one_of("dtype", dtype, DTYPES)
    for name in ("max_model_len", "max_num_seqs", "kv_cache_mib", "tensor_parallel_size"):
        at.bounds(name, getattr(options, name), at_least=0)
    expected = _expected(request.expected_policy_id, "expected_policy_id", faults)
    faults.raise_if_any("the policy cannot be loaded")
    return LoadPolicy(
        request_id=request.request_id,
        name=PolicyName(request.name),
        source=request.source,
        options=EngineOptions(
            dtype=dtype,
            max_model_len=options.max_model_len,
            max_num_seqs=options.max_num_seqs,
            kv_cache_mib=options.kv_cache_mib,
            tensor_parallel_size=options.tensor_parallel_size,
        ),
        expected_policy_id=expected,
    )


def generation_from_proto(request: pb.GenerateRequest) -> tuple[PolicyName, GenerationRequest, PolicyId | None]:
    """Raises InvalidArgument."""
    faults = Faults()
    faults.unless(request.policy, "policy", "must name a loaded policy")
    prompt = _prompt(request, faults)
    sampling = _sampling(request.sampling, faults)
    expected = _expected(request.expected_policy_id, "expected_policy_id", faults)
    faults.raise_if_any("the prompt cannot be completed")
    return PolicyName(request.policy), GenerationRequest(prompt, sampling), expected


async def weight_update_from_proto(
    messages: AsyncIterator[pb.UpdateWeightsRequest],
) -> tuple[WeightUpdate, WeightStream]:
    """Reads the header. The tensors are read while the returned stream is read.

    Raises InvalidArgument, as reading the stream does.
    """
    first = await anext(messages, None)
    faults = Faults()
    faults.unless(first is not None and first.WhichOneof("message") == "header", "header", "must be the first message")
    faults.raise_if_any("the weights cannot be loaded")
    assert first is not None
    header = first.header
    faults.unless(header.policy, "header.policy", "must name a loaded policy")
    faults.unless(_POLICY_ID.fullmatch(header.policy_id), "header.policy_id", "must be sha256: and 64 hex digits")
    faults.raise_if_any("the weights cannot be loaded")
    update = WeightUpdate(PolicyName(header.policy), PolicyId(header.policy_id), header.step)
    return update, _weights(messages)


def policy_to_proto(policy: Policy) -> pb.Policy:
    message = pb.Policy(
        name=policy.name,
        state=_STATES[policy.state],
        policy_id=policy.policy_id or "",
        source=policy.source,
        error=policy.error,
        create_time=timestamp_to_proto(policy.create_time),
        weight_updates=policy.weight_updates,
    )
    if policy.engine is not None:
        message.dtype = policy.engine.dtype
        message.max_model_len = policy.engine.max_model_len
    if policy.ready_time is not None:
        message.ready_time.CopyFrom(timestamp_to_proto(policy.ready_time))
    return message


def page_to_proto(page: Page[Policy]) -> pb.ListPoliciesResponse:
    return pb.ListPoliciesResponse(
        policies=[policy_to_proto(policy) for policy in page.items], next_page_token=page.next_page_token
    )


def completion_to_proto(completion: Completion) -> pb.Completion:
    return pb.Completion(
        index=completion.index,
        token_ids=completion.token_ids,
        log_probs=completion.log_probs,
        text=completion.text,
        finish_reason=_REASONS[completion.finish_reason],
    )


def generation_to_proto(generation: Generation) -> pb.GenerateResponse:
    return pb.GenerateResponse(
        completions=[completion_to_proto(completion) for completion in generation.completions],
        policy_id=generation.policy_id,
        prompt_token_ids=generation.prompt_token_ids,
        duration=duration_to_proto(generation.duration),
    )


async def pieces_to_proto(
    pieces: AsyncIterator[tuple[EngineOutput, PolicyId]],
) -> AsyncIterator[pb.GenerateStreamResponse]:
    first = True
    async for output, policy_id in pieces:
        for delta in output.completions:
            response = pb.GenerateStreamResponse(delta=completion_to_proto(delta), policy_id=policy_id)
            if first:
                response.prompt_tokens = len(output.prompt_token_ids)
                first = False
            yield response


def update_to_proto(result: WeightUpdateResult) -> pb.UpdateWeightsResponse:
    return pb.UpdateWeightsResponse(
        policy=policy_to_proto(result.policy),
        bytes=result.bytes,
        receive_duration=duration_to_proto(result.receive_duration),
        load_duration=duration_to_proto(result.load_duration),
        probe_error=result.probe_error,
    )


def _prompt(request: pb.GenerateRequest, faults: Faults) -> Prompt:
    match request.WhichOneof("prompt"):
        case "tokens":
            faults.unless(request.tokens.ids, "tokens.ids", "must hold at least one token")
            return TokenPrompt(tuple(request.tokens.ids))
        case "chat":
            faults.unless(request.chat.messages, "chat.messages", "must hold at least one message")
            for index, message in enumerate(request.chat.messages):
                faults.unless(message.role, f"chat.messages[{index}].role", "must be set")
            return ChatPrompt(tuple(ChatMessage(message.role, message.content) for message in request.chat.messages))
        case "text":
            faults.unless(request.text, "text", "must not be empty")
            return TextPrompt(request.text)
        case _:
            faults.unless(False, "prompt", "one of tokens, text and chat must be set")
            return TextPrompt("")


def _sampling(message: pb.SamplingParams, faults: Faults) -> Sampling:
    sampling = Sampling(
        temperature=message.temperature if message.HasField("temperature") else 1.0,
        top_p=message.top_p if message.HasField("top_p") else 1.0,
        top_k=message.top_k,
        max_tokens=message.max_tokens,
        stop=tuple(message.stop),
        stop_token_ids=tuple(message.stop_token_ids),
        seed=message.seed if message.HasField("seed") else None,
        ignore_eos=message.ignore_eos,
        logprobs=message.logprobs,
        repetition_penalty=message.repetition_penalty if message.HasField("repetition_penalty") else 1.0,
        n=message.n or 1,
    )
    at = faults.under("sampling")
    at.bounds("temperature", sampling.temperature, at_least=0, at_most=100)
    at.bounds("top_p", sampling.top_p, above=0, at_most=1)
    at.bounds("top_k", sampling.top_k, at_least=0)
    at.bounds("max_tokens", sampling.max_tokens, at_least=0)
    at.bounds("repetition_penalty", sampling.repetition_penalty, above=0)
    at.bounds("n", sampling.n, at_least=1, at_most=MAX_COMPLETIONS)
    at.unless(sampling.temperature > 0 or sampling.n == 1, "n", "must be 1 when temperature is 0 (greedy)")
    at.unless(all(sampling.stop), "stop", "must not hold an empty string")
    at.unless(all(token >= 0 for token in sampling.stop_token_ids), "stop_token_ids", "must not be negative")
    return sampling


def _expected(given: str, field: str, faults: Faults) -> PolicyId | None:
    faults.unless(not given or _POLICY_ID.fullmatch(given), field, "must be sha256: and 64 hex digits")
    return PolicyId(given) if given else None


async def _weights(messages: AsyncIterator[pb.UpdateWeightsRequest]) -> WeightStream:
    async for message in messages:
        match message.WhichOneof("message"):
            case "tensor":
                tensor = message.tensor
                if any(length < 0 for length in tensor.shape):
                    raise InvalidArgument(
                        f"tensor {tensor.name} has a negative length",
                        [FieldViolation("tensor.shape", "must not hold a negative length")],
                    )
                yield TensorHeader(tensor.name, tensor.dtype, tuple(tensor.shape), tensor.sha256)
            case "chunk":
                yield Chunk(message.chunk)
            case _:
                raise InvalidArgument(
                    "a second header, or an empty message",
                    [FieldViolation("message", "must be a tensor or a chunk after the header")],
                )
