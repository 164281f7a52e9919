"""A service as both doors call it: each change that is asked of it goes into the audit log."""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import structlog
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message

from gateway_service.auth import scope_of
from gateway_service.domain.keys.audit import AuditLog
from gateway_service.domain.keys.key import Scope
from ratchet_kit.errors import RatchetError
from ratchet_kit.grpc_errors import code_of
from ratchet_protos.http import rules

CHANGING = frozenset({Scope.TRAIN, Scope.RELEASE, Scope.ADMIN})
PIECES = frozenset({"WriteDataset", "AddSamples"})
"""RPCs that go on with what another began."""


class Audited:
    """Stands for a stub or a servicer, method by method."""

    def __init__(self, backend: object, service: str, log: AuditLog) -> None:
        """`service`: its full name."""
        self._log = log
        for method in descriptor_pool.Default().FindServiceByName(service).methods:
            if hasattr(backend, method.name):  # of some services the gateway answers a part
                call = getattr(backend, method.name)
                setattr(self, method.name, self._recorded(method, call) if changes(method) else call)

    def _recorded(self, method: MethodDescriptor, call: Callable[..., Awaitable[Message]]) -> Callable[..., Any]:
        name = f"{method.containing_service.name}.{method.name}"
        variables = rules(method)[0].variables

        async def recorded(request: Message, *more: object) -> Message:
            resource = "/".join(str(_field(request, variable)) for variable in variables)
            code = grpc.StatusCode.UNKNOWN
            try:
                reply = await call(request, *more)
                code, resource = grpc.StatusCode.OK, resource or _name_in(reply)
                return reply
            except RatchetError as error:
                code = code_of(error)
                raise
            except grpc.aio.AioRpcError as error:
                code = error.code()
                raise
            finally:
                request_id = str(structlog.contextvars.get_contextvars().get("request_id", ""))
                await self._log.record(name, resource, code.name, request_id)

        return recorded


def changes(method: MethodDescriptor) -> bool:
    """True for RPCs that change something people decide on."""
    found = rules(method)
    is_read = not found or found[0].verb == "GET"
    return not is_read and scope_of(method) in CHANGING and method.name not in PIECES


def _field(message: Any, path: str) -> object:
    for name in path.split("."):
        message = getattr(message, name)
    return message


def _name_in(reply: Message) -> str:
    """Names what was made: the id of the first message in the reply, or its model, name and number."""
    for field, value in reply.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE and isinstance(value, Message):
            named = [getattr(value, name, "") for name in ("id", "model", "name", "number")]
            return str(named[0]) or "/".join(str(one) for one in named[1:] if one)
    return ""
