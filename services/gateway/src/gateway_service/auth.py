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
from gateway_service.domain.keys.key import Scope
from ratchet_kit.interceptors import Call, Wrapper
from ratchet_protos.http import required_scope

PACKAGE = "ratchet.gateway.v1"
"""Calls of its services need a key; health and reflection are open."""


_bearer = HTTPBearer(auto_error=False, description="An API key of Ratchet: rk_...")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def scope_of(method: MethodDescriptor) -> Scope:
    return convert.SCOPES[required_scope(method)]


def grpc_auth(authenticator: Authenticator) -> Wrapper:
    """Checks the calls of the gateway's own services."""

    @asynccontextmanager
    async def wrap(call: Call) -> AsyncIterator[None]:
        if call.method.startswith(f"/{PACKAGE}."):
            method = descriptor_pool.Default().FindMethodByName(call.method.strip("/").replace("/", "."))
            sent = dict(call.context.invocation_metadata() or ())
            await authenticator.check(_secret(str(sent.get("authorization", ""))), scope_of(method))
        yield

    return wrap


def http_auth(authenticator: Authenticator, scope: Scope) -> Any:
    """A dependency of HTTP routes that need `scope`. The request's state has the `key_id` then."""

    async def check(request: Request, credentials: Credentials) -> None:
        request.state.key_id = await authenticator.check(credentials.credentials if credentials else "", scope)

    return Depends(check)


def _secret(header: str) -> str:
    kind, _, secret = header.partition(" ")
    return secret.strip() if kind.lower() == "bearer" else ""
