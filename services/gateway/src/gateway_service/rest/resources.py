"""/api/v1: each resource is the service's RPC with its messages as JSON. This module is the table of them."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
from fastapi import APIRouter, Request
from fastapi.responses import Response
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, MethodDescriptor
from google.protobuf.message import Message

from gateway_service.auth import http_auth, scope_of
from gateway_service.domain.keys.authenticator import Authenticator
from gateway_service.rest import messages, schemas, sse
from gateway_service.rest.errors import error_body
from ratchet.eval.v1 import eval_pb2
from ratchet.gateway.v1 import gateway_pb2
from ratchet.registry.v1 import registry_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_kit.errors import RatchetError
from ratchet_kit.grpc_errors import rpc_errors


@dataclass(frozen=True, slots=True)
class Backends:
    """What answers the RPCs of each service: its stub, or the gateway's own servicer."""

    trainer: Any
    eval: Any
    registry: Any
    gateway: Any


@dataclass(frozen=True, slots=True)
class Route:
    """An HTTP route that is an RPC. A GET of an RPC that streams is a watch, by server-sent events."""

    verb: str
    path: str
    rpc: str
    summary: str
    operation_id: str | None = None


RUNS = (
    Route("POST", "/runs", "CreateRun", "Start a training run"),
    Route("GET", "/runs", "ListRuns", "List training runs"),
    Route("GET", "/runs/{id}", "GetRun", "Get a training run"),
    Route("POST", "/runs/{id}/cancel", "CancelRun", "Cancel a training run"),
    Route("GET", "/runs/{id}/watch", "WatchRun", "Follow a training run and its steps"),
    Route("GET", "/runs/{run_id}/steps", "ListSteps", "List the steps of a run, with their metrics"),
    Route("GET", "/runs/{run_id}/checkpoints", "ListCheckpoints", "List the checkpoints of a run"),
)
EVALUATIONS = (
    Route("POST", "/evaluations", "CreateEvaluation", "Start an evaluation"),
    Route("GET", "/evaluations", "ListEvaluations", "List evaluations"),
    Route("POST", "/evaluations/compare", "CompareEvaluations", "Compare two finished evaluations"),
    Route("GET", "/evaluations/{id}", "GetEvaluation", "Get an evaluation"),
    Route("POST", "/evaluations/{id}/cancel", "CancelEvaluation", "Cancel an evaluation"),
    Route("GET", "/evaluations/{id}/watch", "WatchEvaluation", "Follow an evaluation"),
    Route("GET", "/evaluations/{evaluation_id}/samples", "ListSamples", "List the graded samples of an evaluation"),
)
MODELS = (
    Route("POST", "/models", "CreateModel", "Create a model"),
    Route("GET", "/models", "ListModels", "List models"),
    Route("GET", "/models/{name}", "GetModel", "Get a model and its aliases"),
    Route("POST", "/models/{model}/versions", "CreateVersion", "Register a version"),
    Route("GET", "/models/{model}/versions", "ListVersions", "List the versions of a model"),
    Route("GET", "/models/{model}/versions/{number}", "GetVersion", "Get a version"),
    Route("GET", "/models/{model}/aliases/history", "ListAliasHistory", "List who was in production when"),
    Route(
        "GET",
        "/models/{model}/aliases/{alias}",
        "GetVersion",
        "Get the version that an alias points at",
        operation_id="GetVersionByAlias",
    ),
    Route("PUT", "/models/{model}/aliases/{alias}", "SetAlias", "Point an alias at a version"),
    Route("POST", "/models/{model}/gates", "CreateGate", "Decide whether a candidate may replace the champion"),
    Route("GET", "/models/{model}/gates", "ListGates", "List the gates of a model"),
    Route("GET", "/gates/{id}", "GetGate", "Get a gate"),
)
RELEASES = (
    Route("POST", "/releases", "CreateRelease", "Start to move traffic to a candidate"),
    Route("GET", "/releases", "ListReleases", "List releases"),
    Route("GET", "/releases/{id}", "GetRelease", "Get a release"),
    Route("POST", "/releases/{id}/rollback", "RollbackRelease", "Send all traffic back to the baseline"),
    Route("GET", "/releases/{id}/watch", "WatchRelease", "Follow a release"),
    Route("POST", "/feedback", "CreateFeedback", "Score a completion"),
)


def build(backends: Backends, authenticator: Authenticator) -> tuple[APIRouter, Sequence[Descriptor]]:
    """The routes, and the messages that their OpenAPI refers to."""
    router = APIRouter(prefix="/api/v1")
    shown: list[Descriptor] = []
    for tag, routes, service, methods in (
        ("runs", RUNS, trainer_pb2.DESCRIPTOR.services_by_name["TrainerService"], backends.trainer),
        ("evaluations", EVALUATIONS, eval_pb2.DESCRIPTOR.services_by_name["EvalService"], backends.eval),
        ("models", MODELS, registry_pb2.DESCRIPTOR.services_by_name["RegistryService"], backends.registry),
        ("releases", RELEASES, gateway_pb2.DESCRIPTOR.services_by_name["GatewayService"], backends.gateway),
    ):
        for route in routes:
            method = service.methods_by_name[route.rpc]
            shown += [method.input_type, method.output_type]
            _add(router, tag, route, method, getattr(methods, route.rpc), authenticator)
    return router, shown


def _add(
    router: APIRouter,
    tag: str,
    route: Route,
    method: MethodDescriptor,
    call: Callable[[Message], Any],
    authenticator: Authenticator,
) -> None:
    kind = message_factory.GetMessageClass(method.input_type)
    media = "text/event-stream" if method.server_streaming else "application/json"
    router.add_api_route(
        route.path,
        (_watch if method.server_streaming else _call)(kind, call),
        methods=[route.verb],
        summary=route.summary,
        operation_id=route.operation_id or route.rpc,
        tags=[tag],
        dependencies=[http_auth(authenticator, scope_of(method.full_name))],
        responses={200: {"content": {media: {"schema": schemas.reference(method.output_type)}}}},
        response_class=Response,
        openapi_extra=_openapi(route, method.input_type),
    )


def _call(kind: type[Message], call: Callable[[Message], Awaitable[Message]]) -> Callable[..., Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        message = await messages.from_request(request, kind)
        with rpc_errors():
            return messages.to_response(await call(message))

    return endpoint


def _watch(kind: type[Message], call: Callable[[Message], Any]) -> Callable[..., Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        message = await messages.from_request(request, kind)
        return sse.response(sse.with_pings(_events(await sse.started(_translated(call(message))))))

    return endpoint


async def _translated(replies: Any) -> AsyncGenerator[Message]:
    try:
        with rpc_errors():
            async for reply in replies:
                yield reply
    finally:
        if isinstance(replies, grpc.aio.Call):
            replies.cancel()
        else:
            await replies.aclose()


async def _events(replies: AsyncGenerator[Message]) -> AsyncGenerator[str]:
    """A `message` event for each reply; at a fault an `error` event, which ends the stream."""
    try:
        async for reply in replies:
            yield sse.event(messages.to_dict(reply))
    except RatchetError as error:
        yield sse.event(error_body(error), "error")


def _openapi(route: Route, request: Descriptor) -> dict[str, Any]:
    """The parameters and the body of a route: fields of its request message."""
    in_path = [part.strip("{}") for part in route.path.split("/") if part.startswith("{")]
    fields = {field.name: schemas.field_schema(field) for field in messages.scalar_fields(request)}
    parameters = [{"name": name, "in": "path", "required": True, "schema": fields[name]} for name in in_path]
    if route.verb != "GET":
        body = {"content": {"application/json": {"schema": schemas.reference(request)}}}
        return {"parameters": parameters, "requestBody": body}
    # What the path has chosen of a oneof leaves nothing for the query.
    chosen = {field.name for oneof in request.oneofs for field in oneof.fields if len(oneof.fields) > 1}
    parameters += [
        {"name": name, "in": "query", "required": False, "schema": schema}
        for name, schema in fields.items()
        if name not in in_path and name not in chosen
    ]
    return {"parameters": parameters}
