"""Who may call what: API keys, sent as `Authorization: Bearer rk_...` over HTTP and in gRPC's metadata alike."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from gateway_service.domain.keys.authenticator import Authenticator
from gateway_service.domain.keys.key import Scope
from ratchet.gateway.v1 import gateway_pb2
from ratchet_kit.interceptors import Around, Call

SERVICE: str = gateway_pb2.DESCRIPTOR.services_by_name["GatewayService"].full_name
FOR_INFERENCE = frozenset(f"{SERVICE}.{method}" for method in ("Complete", "StreamComplete", "CreateFeedback"))
"""The RPCs that a key of scope INFERENCE may call; all others need ADMIN."""

_bearer = HTTPBearer(auto_error=False, description="An API key of Ratchet: rk_...")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def scope_of(rpc: str) -> Scope:
    """The scope that a call needs. `rpc`: its full name, "ratchet.gateway.v1.GatewayService.Complete"."""
    return Scope.INFERENCE if rpc in FOR_INFERENCE else Scope.ADMIN


def grpc_auth(authenticator: Authenticator) -> Around:
    """Checks calls of the gateway's own service; health and reflection are open."""

    @asynccontextmanager
    async def around(call: Call) -> AsyncIterator[None]:
        service, _, method = call.method.removeprefix("/").partition("/")
        if service == SERVICE:
            sent = dict(call.context.invocation_metadata() or ())
            await authenticator.check(_secret(str(sent.get("authorization", ""))), scope_of(f"{service}.{method}"))
        yield

    return around


def http_auth(authenticator: Authenticator, scope: Scope) -> Any:
    """A dependency of HTTP routes that need `scope`."""

    async def check(credentials: Credentials) -> None:
        await authenticator.check(credentials.credentials if credentials else "", scope)

    return Depends(check)


def _secret(header: str) -> str:
    kind, _, secret = header.partition(" ")
    return secret.strip() if kind.lower() == "bearer" else ""
