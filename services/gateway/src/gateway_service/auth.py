"""API keys of gRPC calls, from the metadata `authorization: Bearer rk_...`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway_service.domain.keys import Doorkeeper, Scope
from ratchet.gateway.v1 import gateway_pb2
from ratchet_kit.interceptors import Around, Call

SERVICE: str = gateway_pb2.DESCRIPTOR.services_by_name["GatewayService"].full_name
# The rest is for administrators.
FOR_INFERENCE = frozenset(f"/{SERVICE}/{method}" for method in ("Complete", "StreamComplete", "CreateFeedback"))


def authenticated(doorkeeper: Doorkeeper) -> Around:
    """Admits calls of the gateway's own service; health and reflection are open."""

    @asynccontextmanager
    async def around(call: Call) -> AsyncIterator[None]:
        if call.method.startswith(f"/{SERVICE}/"):
            sent = dict(call.context.invocation_metadata() or ())
            kind, _, secret = str(sent.get("authorization", "")).partition(" ")
            scope = Scope.INFERENCE if call.method in FOR_INFERENCE else Scope.ADMIN
            await doorkeeper.admit(secret.strip() if kind.lower() == "bearer" else "", scope)
        yield

    return around
