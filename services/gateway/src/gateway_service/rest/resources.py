"""/api/v1: the RPCs of Ratchet's services, at the routes that their protos state, with their messages as JSON."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import grpc
from fastapi import APIRouter, Request
from fastapi.responses import Response
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, MethodDescriptor
from google.protobuf.message import Message

from gateway_service.auth import behind_the_door, http_auth, scope_of
from gateway_service.rest import messages, schemas
from ratchet.common.v1 import priority_pb2
from ratchet_kit.errors import PermissionDenied, RatchetError, Unavailable
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_kit.work import surviving
from ratchet_protos.http import Rule, rules
from ratchet_sessions.doors import sse
from ratchet_sessions.doors.errors import error_body

NO_CONNECTION = ("connections to all backends failing", "failed to connect to all addresses")
"""Words of gRPC's clients."""
REGISTRY = "ratchet.registry.v1.RegistryService"
Backends: TypeAlias = Mapping[str, object]
"""What answers each service, by the service's full name: its stub, or the gateway's own servicer."""


def build(backends: Backends, refresh: Callable[[], Awaitable[None]]) -> tuple[APIRouter, Sequence[Descriptor]]:
    """The routes, and the messages that their OpenAPI refers to.

    `refresh` runs after each change in the registry: what was changed through this door holds at once behind it.
    """
    router = APIRouter()
    shown: list[Descriptor] = []
    for rule, method in sorted(_routes(backends), key=_literals_first):
        shown += [method.input_type, method.output_type]
        call = getattr(backends[method.containing_service.full_name], method.name)
        if method.containing_service.full_name == REGISTRY and rule.verb != "GET":
            call = _then(call, refresh)
        kind = message_factory.GetMessageClass(method.input_type)
        media = "text/event-stream" if method.server_streaming else "application/json"
        router.add_api_route(
            messages.route_path(rule),
            (_watch if method.server_streaming else _call)(rule, kind, call),
            methods=[rule.verb],
            summary=schemas.words(method.name),
            operation_id=_operation_id(rule, method),
            tags=[rule.path.split("/")[3]],
            dependencies=[http_auth(scope_of(method))],
            responses={200: {"content": {media: {"schema": schemas.reference(method.output_type)}}}},
            response_class=Response,
            openapi_extra=schemas.operation(rule, method.input_type),
        )
    return router, shown


def _routes(services: Iterable[str]) -> Iterable[tuple[Rule, MethodDescriptor]]:
    pool = descriptor_pool.Default()
    for service in services:
        for method in pool.FindServiceByName(service).methods:
            for rule in rules(method):
                yield rule, method


def _literals_first(route: tuple[Rule, MethodDescriptor]) -> list[tuple[bool, str]]:
    """So that "/evaluations/compare" is not taken for an evaluation's id."""
    return [(segment.startswith("{"), segment) for segment in route[0].path.split("/")]


def _operation_id(rule: Rule, method: MethodDescriptor) -> str:
    """The RPC's name; for an additional binding with the field that it has in place of the first rule's."""
    if rule == rules(method)[0]:
        return str(method.name)
    return f"{method.name}By{rule.variables[-1].title()}"


def _then(
    call: Callable[[Message], Awaitable[Message]], refresh: Callable[[], Awaitable[None]]
) -> Callable[[Message], Awaitable[Message]]:
    async def call_then(message: Message) -> Message:
        reply = await call(message)
        with surviving("refresh after a change"):
            await refresh()
        return reply

    return call_then


def _call(
    rule: Rule, kind: type[Message], call: Callable[[Message], Awaitable[Message]]
) -> Callable[..., Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        message = _named(await messages.from_request(request, rule, kind), request)
        with _errors_of(kind):
            return messages.to_response(await call(message))

    return endpoint


def _watch(rule: Rule, kind: type[Message], call: Callable[[Message], Any]) -> Callable[..., Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        message = _named(await messages.from_request(request, rule, kind), request)
        return sse.EventStream(_events(await sse.started(request.receive, _replies(kind, call(message)))))

    return endpoint


def _named(message: Message, request: Request) -> Message:
    """Where a service asks who calls, that is the gateway for an API key, whatever the client says. Raises
    PermissionDenied for programs that would go before those of the platform."""
    if "caller" in message.DESCRIPTOR.fields_by_name:
        if getattr(message, "priority", None) == priority_pb2.PRIORITY_HIGH and not request.state.key.is_operator:
            raise PermissionDenied("high priority is for keys of scope admin")
        message.caller = "/".join(filter(None, ["gateway", request.state.key.id]))  # type: ignore[attr-defined]
    return message


@contextmanager
def _errors_of(kind: type[Message]) -> Iterator[None]:
    """As `rpc_errors`. `kind`: of the request, whose package says which service does not answer."""
    try:
        with rpc_errors():
            yield
    except Unavailable as error:
        service = kind.DESCRIPTOR.file.package.split(".")[1]
        if service == "gateway" or not error.message.startswith(NO_CONNECTION):
            raise  # what the gateway's own services ask may be any other
        raise Unavailable(f"the {service} service does not answer: ratchet status says what runs") from error


async def _replies(kind: type[Message], replies: Any) -> AsyncGenerator[Message]:
    try:
        with _errors_of(kind):
            async for reply in replies:
                yield reply
    finally:
        if isinstance(replies, grpc.aio.Call):
            replies.cancel()
        else:
            await replies.aclose()


async def _events(replies: AsyncGenerator[Message]) -> AsyncGenerator[str]:
    """A `message` event per reply; an error is an `error` event, which ends the stream."""
    try:
        async for reply in replies:
            yield sse.event(messages.to_dict(reply))
    except RatchetError as error:
        yield sse.event(error_body(behind_the_door(error)), "error")
