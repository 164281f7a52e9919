"""Protos to the domain and back. Pure. A wrong request raises InvalidArgument with every field at fault."""

import json
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from ratchet.rollout.v1 import rollout_pb2 as pb
from ratchet_kit.errors import FieldViolation, InvalidArgument
from ratchet_kit.faults import Faults
from ratchet_kit.grpc_errors import failure_to_proto
from ratchet_kit.pages import Page
from ratchet_kit.times import duration_to_proto, timestamp_to_proto
from ratchet_policies import Begun, ChatPrompt, Prompt, Sampling, TextPrompt, TokenPrompt, Tools
from ratchet_policies.convert import (
    completion_to_proto,
    echo_to_proto,
    priority_from_proto,
    prompt_from_proto,
    sampling_from_proto,
)
from ratchet_policies.convert_nodes import purpose_from_proto, purpose_to_proto
from ratchet_problems import Message
from rollout_service.domain.generation import EngineOutput, Generation, GenerationRequest
from rollout_service.domain.policies import LoadPolicy
from rollout_service.domain.policy import Dtype, EngineOptions, Policy, PolicyId, PolicyName, State
from rollout_service.domain.weights import Chunk, TensorHeader, WeightStream, WeightUpdate, WeightUpdateResult

MAX_COMPLETIONS = 256
MAX_TOP_LOGPROBS = 20
"""As vLLM's own default, and OpenAI's limit."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@~-]{0,99}")
_TOOL = re.compile(r"[A-Za-z0-9_-]{1,64}")
_POLICY_ID = re.compile(r"sha256:[0-9a-f]{64}")
_OPTIONS = ("max_model_len", "max_num_seqs", "kv_cache_bytes", "tensor_parallel_size")

_DTYPES = {pb.DTYPE_FLOAT32: Dtype.FLOAT32, pb.DTYPE_BFLOAT16: Dtype.BFLOAT16, pb.DTYPE_FLOAT16: Dtype.FLOAT16}
_DTYPES_TO_PROTO = {dtype: number for number, dtype in _DTYPES.items()}
_STATES_TO_PROTO = {
    State.LOADING: pb.Policy.STATE_LOADING,
    State.READY: pb.Policy.STATE_READY,
    State.FAILED: pb.Policy.STATE_FAILED,
    State.UNLOADING: pb.Policy.STATE_UNLOADING,
}


def load_policy_from_proto(request: pb.LoadPolicyRequest) -> LoadPolicy:
    """Raises InvalidArgument."""
    faults = Faults()
    faults.unless(_NAME.fullmatch(request.name), "name", "must be 1 to 100 letters, digits, '.', '_', '@', '~' or '-'")
    faults.unless(request.source_uri, "source_uri", "must be a folder or an fsspec URL")
    given, at = request.options, faults.under("options")
    at.unless(given.dtype in (pb.DTYPE_UNSPECIFIED, *_DTYPES), "dtype", "must be one of those known here")
    numbers: dict[str, int] = {name: getattr(given, name) for name in _OPTIONS if given.HasField(name)}  # type: ignore[arg-type]
    for name, number in numbers.items():
        at.bounds(name, number, at_least=1)
    at.length("model", given.model, 100)
    expected = _expected(request.expected_policy_id, "expected_policy_id", faults)
    purpose = faults.read("purpose", purpose_from_proto, request.purpose)
    faults.raise_if_any("the policy cannot be loaded")
    assert purpose is not None
    return LoadPolicy(
        request_id=request.request_id,
        name=PolicyName(request.name),
        source=request.source_uri,
        options=EngineOptions(dtype=_DTYPES.get(given.dtype), model=given.model, sleeps=given.sleeps, **numbers),
        expected_policy_id=expected,
        purpose=purpose,
    )


def generation_from_proto(request: pb.GenerateRequest) -> tuple[PolicyName, GenerationRequest, PolicyId | None]:
    """Raises InvalidArgument."""
    faults = Faults()
    faults.unless(request.policy, "policy", "must name a loaded policy")
    prompt = faults.read("prompt", prompt_from_proto, request.prompt)
    _check_prompt(prompt, faults.under("prompt"))
    if request.chat_template and isinstance(prompt, ChatPrompt):
        prompt = replace(prompt, chat_template=request.chat_template)
    elif prompt and request.chat_template:
        faults.add("chat_template", "must be empty: the prompt is no chat")
    sampling = sampling_from_proto(request.sampling)
    _check_sampling(sampling, faults.under("sampling"))
    priority = faults.read("priority", priority_from_proto, request.priority)
    expected = _expected(request.expected_policy_id, "expected_policy_id", faults)
    faults.raise_if_any("the prompt cannot be completed")
    assert prompt is not None
    assert priority is not None
    return PolicyName(request.policy), GenerationRequest(prompt, sampling, priority), expected


async def weight_update_from_proto(
    messages: AsyncIterator[pb.UpdateWeightsRequest],
) -> tuple[WeightUpdate, WeightStream]:
    """Reads the header. The tensors are read while the returned stream is read.

    Raises InvalidArgument, as reading the stream does.
    """
    first = await anext(messages, pb.UpdateWeightsRequest())
    faults = Faults()
    if faults.unless(first.WhichOneof("message") == "header", "header", "must be the first message"):
        at = faults.under("header")
        at.unless(first.header.policy, "policy", "must name a loaded policy")
        at.unless(_POLICY_ID.fullmatch(first.header.policy_id), "policy_id", "must be sha256: and 64 hex digits")
        if first.header.HasField("base_policy_id"):
            at.unless(_POLICY_ID.fullmatch(first.header.base_policy_id), "base_policy_id", "must be a policy id, too")
    faults.raise_if_any("the weights cannot be loaded")
    header = first.header
    base = PolicyId(header.base_policy_id) if header.HasField("base_policy_id") else None
    update = WeightUpdate(PolicyName(header.policy), PolicyId(header.policy_id), header.step, base, header.interrupts)
    return update, _weights(messages)


def policy_to_proto(policy: Policy) -> pb.Policy:
    return pb.Policy(
        name=policy.name,
        state=_STATES_TO_PROTO[policy.state],
        failure=failure_to_proto(policy.failure),
        policy_id=policy.policy_id or "",
        source_uri=policy.source,
        dtype=_DTYPES_TO_PROTO[policy.engine.dtype] if policy.engine else pb.DTYPE_UNSPECIFIED,
        max_model_len=policy.engine.max_model_len if policy.engine else 0,
        has_chat_template=policy.engine.has_chat_template if policy.engine else False,
        create_time=timestamp_to_proto(policy.create_time),
        ready_time=timestamp_to_proto(policy.ready_time) if policy.ready_time else None,
        weight_updates=policy.weight_updates,
        settings_id=policy.settings_id,
        purpose=purpose_to_proto(policy.purpose),
        kv_cache_tokens=policy.engine.kv_cache_tokens if policy.engine else 0,
        library=policy.engine.library if policy.engine else "",
        usage=pb.EngineUsage(
            gpu_time=duration_to_proto(policy.usage.gpu_time),
            cpu_time=duration_to_proto(policy.usage.cpu_time),
            tokens=policy.usage.tokens,
            gpu_busy_time=duration_to_proto(policy.usage.gpu_busy_time),
            gpu_watched_time=duration_to_proto(policy.usage.gpu_watched_time),
        ),
    )


def page_to_proto(page: Page[Policy]) -> pb.ListPoliciesResponse:
    return pb.ListPoliciesResponse(policies=page.map(policy_to_proto).items, next_page_token=page.next_page_token)


def generation_to_proto(generation: Generation) -> pb.GenerateResponse:
    return pb.GenerateResponse(
        completions=[completion_to_proto(completion) for completion in generation.completions],
        policy_id=generation.policy_id,
        prompt_token_ids=generation.prompt_token_ids,
        duration=duration_to_proto(generation.duration),
        echo=echo_to_proto(generation.echo),
    )


async def pieces_to_proto(
    pieces: AsyncIterator[tuple[EngineOutput, PolicyId]],
) -> AsyncIterator[pb.StreamGenerateResponse]:
    is_first = True
    async for output, policy_id in pieces:
        for delta in output.completions:
            response = pb.StreamGenerateResponse(delta=completion_to_proto(delta), policy_id=policy_id)
            if is_first:
                response.prompt_tokens = len(output.prompt_token_ids)
                response.prompt_token_ids.extend(output.prompt_token_ids)
                response.MergeFrom(pb.StreamGenerateResponse(echo=echo_to_proto(output.echo)))
                is_first = False
            yield response


def update_to_proto(result: WeightUpdateResult) -> pb.UpdateWeightsResponse:
    return pb.UpdateWeightsResponse(
        policy=policy_to_proto(result.policy),
        size_bytes=result.size_bytes,
        received_bytes=result.received_bytes,
        receive_duration=duration_to_proto(result.receive_duration),
        prepare_duration=duration_to_proto(result.prepare_duration),
        load_duration=duration_to_proto(result.load_duration),
        probe_error=result.probe_error,
    )


def _check_prompt(prompt: Prompt | None, faults: Faults) -> None:
    match prompt:
        case TokenPrompt(ids):
            faults.unless(ids, "tokens.ids", "must hold at least one token")
        case TextPrompt(text, suffix):
            faults.required("text", text or suffix)
        case ChatPrompt(messages, tools, begun=begun):
            faults.unless(messages, "chat.messages", "must hold at least one message")
            for index, message in enumerate(messages):
                faults.required(f"chat.messages[{index}].role", message.role)
            if begun is not None:
                _check_begun(begun, messages, faults.under("chat.begun"))
            if tools is not None:
                _check_tools(tools, faults.under("chat.tools"))


def _check_begun(begun: Begun, messages: Sequence[Message], faults: Faults) -> None:
    faults.unless(begun.ids, "token_ids", "must hold at least one token")
    if not 1 <= begun.messages < len(messages):
        faults.add("messages", "must be at least 1, and fewer than there are messages")
    elif messages[begun.messages - 1].role != "assistant":
        faults.add("messages", "must count up to an answer: a message of the assistant")


def _check_tools(tools: Tools, faults: Faults) -> None:
    faults.unless(tools.offered, "offered", "must hold at least one tool")
    for index, tool in enumerate(tools.offered):
        at = faults.under(f"offered[{index}]")
        at.unless(_TOOL.fullmatch(tool.name), "name", "must be 1 to 64 letters, digits, '_' or '-'")
        at.unless(not tool.parameters or _is_object(tool.parameters), "parameters", "must be a JSON Schema: an object")
    names = [tool.name for tool in tools.offered]
    faults.unless(len(set(names)) == len(names), "offered", "must not hold two tools of one name")
    faults.unless(not tools.called or tools.called in names, "called", "must be the name of an offered tool")


def _check_sampling(sampling: Sampling, faults: Faults) -> None:
    if sampling.temperature is not None:
        faults.bounds("temperature", sampling.temperature, at_least=0, at_most=100)
    if sampling.top_p is not None:
        faults.bounds("top_p", sampling.top_p, above=0, at_most=1)
    if sampling.top_k is not None:
        faults.bounds("top_k", sampling.top_k, at_least=1)
    if sampling.min_p is not None:
        faults.bounds("min_p", sampling.min_p, at_least=0, at_most=1)
    if sampling.max_tokens is not None:
        faults.bounds("max_tokens", sampling.max_tokens, at_least=0 if sampling.echo else 1)
    if sampling.repetition_penalty is not None:
        faults.bounds("repetition_penalty", sampling.repetition_penalty, above=0)
    if sampling.top_logprobs is not None:
        faults.bounds("top_logprobs", sampling.top_logprobs, at_least=0, at_most=MAX_TOP_LOGPROBS)
    for name in ("presence_penalty", "frequency_penalty"):
        if (value := getattr(sampling, name)) is not None:
            faults.bounds(name, value, at_least=-2, at_most=2)
    for token, bias in sampling.logit_bias.items():
        faults.bounds(f"logit_bias[{token}]", bias, at_least=-100, at_most=100)
    if sampling.json_schema is not None:
        faults.unless(_is_object(sampling.json_schema), "json_schema", "must be a JSON Schema: a JSON object")
    faults.bounds("n", sampling.n, at_least=1, at_most=MAX_COMPLETIONS)
    faults.unless(sampling.temperature != 0 or sampling.n == 1, "n", "must be 1 when temperature is 0 (greedy)")
    faults.unless(all(sampling.stop), "stop", "must not hold an empty string")
    faults.unless(all(token >= 0 for token in sampling.stop_token_ids), "stop_token_ids", "must not be negative")


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


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
                yield TensorHeader(tensor.name, tensor.dtype, tuple(tensor.shape), tensor.sha256, tensor.changes)
            case "chunk":
                yield Chunk(message.chunk)
            case _:
                raise InvalidArgument(
                    "a second header, or an empty message",
                    [FieldViolation("message", "must be a tensor or a chunk after the header")],
                )
