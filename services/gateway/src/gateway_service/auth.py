"""Who may call what: API keys, sent as `Authorization: Bearer rk_...` over HTTP and in gRPC's metadata alike.

Which scope an RPC needs stands in its proto, for both.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor

from gateway_service import convert
from gateway_service.domain.keys.authenticator import Authenticator
from gateway_service.domain.keys.caller import set_caller
from gateway_service.domain.keys.key import Scope
from gateway_service.domain.keys.usage import Usage
from ratchet_kit import logs
from ratchet_kit.errors import RatchetError, Unauthenticated, Unavailable
from ratchet_kit.interceptors import Call, Wrapper
from ratchet_kit.logs import get_logger
from ratchet_protos.http import required_scope
from ratchet_sessions.doors.access import secret_of
from ratchet_sessions.doors.errors import PLATFORMS, for_strangers

log = get_logger(__name__)

PACKAGE = "ratchet.gateway.v1"
"""Calls of its services need a key; health and reflection are open."""


_bearer = HTTPBearer(auto_error=False, description="An API key of Ratchet: rk_... It may come as x-api-key, too.")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def scope_of(method: MethodDescriptor) -> Scope:
    return convert.SCOPES[required_scope(method)]


def grpc_auth(authenticator: Authenticator, usage: Usage) -> Wrapper:
    """Checks the calls of the gateway's own services. What it answers names no machine of the platform's."""

    @asynccontextmanager
    async def wrap(call: Call) -> AsyncIterator[None]:
        try:
            async with admit(call):
                yield
        except PLATFORMS as error:
            log.warning("call.failed", method=call.method, reason=error.message)
            raise for_strangers(error) from error

    @asynccontextmanager
    async def admit(call: Call) -> AsyncIterator[None]:
        if call.method.startswith(f"/{PACKAGE}."):
            method = descriptor_pool.Default().FindMethodByName(call.method.strip("/").replace("/", "."))
            sent = [str(value) for name, value in call.context.invocation_metadata() or () if name == "authorization"]
            key = await authenticator.check(secret_of(sent), scope_of(method))
            with usage.admit(key):
                set_caller(key)
                logs.bind(actor=key.id, project=key.view)
                try:
                    yield
                except Unauthenticated as error:
                    raise behind_the_door(error) from error
        else:
            yield

    return wrap


def behind_the_door(error: RatchetError) -> RatchetError:
    """The same error; what a service says of the gateway's own token is not about the caller's key, which was looked at
    before."""
    if isinstance(error, Unauthenticated):
        return Unavailable("a part of the platform does not take the gateway's token")
    return error


def http_auth(scope: Scope) -> Any:
    """A dependency of HTTP routes that need `scope`. `rest.door` has looked at the key before."""

    async def check(request: Request, credentials: Credentials) -> None:
        request.state.key.require(scope)

    return Depends(check)
