"""API keys of HTTP requests."""

from typing import Annotated, Any

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from gateway_service.domain.keys import Doorkeeper, Scope

_bearer = HTTPBearer(auto_error=False, description="An API key of Ratchet: rk_...")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def requires(doorkeeper: Doorkeeper, scope: Scope) -> Any:
    """A dependency of routes that need `scope`."""

    async def check(credentials: Credentials) -> None:
        await doorkeeper.admit(credentials.credentials if credentials else "", scope)

    return Depends(check)
