"""Completions, with the models and prompts that they are asked of."""

from gateway_service.domain.completions.completion import CompletionRequest, CompletionResponse, ResponseDelta
from ratchet.gateway.v1 import gateway_pb2
from ratchet_kit import refs
from ratchet_kit.errors import invalid
from ratchet_kit.names import Location
from ratchet_policies import convert as policies


def completion_request_from_proto(message: gateway_pb2.CompleteRequest) -> CompletionRequest:
    """Raises InvalidArgument that names the field at fault."""
    target = refs.model_from_proto(message.model, "model")
    if isinstance(target, Location):
        raise invalid("model.uri", "cannot be used here: name a model, a version or an alias of the registry")
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


def headers_of(answer: CompletionResponse | ResponseDelta, seconds: float) -> dict[str, str]:
    """What is said beside an answer, or the first piece of one: headers of HTTP, metadata of gRPC.

    `seconds`: since the request came.
    """
    policy_id = answer.generation.policy_id if isinstance(answer, CompletionResponse) else answer.delta.policy_id
    own_ms = max(0.0, seconds - answer.engine_time.total_seconds()) * 1e3
    headers = {
        "x-ratchet-version": str(answer.version),
        "x-ratchet-policy-id": policy_id,
        "x-ratchet-engine-ms": f"{answer.engine_time.total_seconds() * 1e3:.2f}",
        "x-ratchet-overhead-ms": f"{own_ms:.2f}",
    }
    if answer.arm:
        headers["x-ratchet-arm"] = answer.arm
    if isinstance(answer, CompletionResponse) and answer.is_cached:
        headers["x-ratchet-cache"] = "hit"
    return headers
