"""ASGI: the requests that come most often go to their functions directly. FastAPI describes these, as all routes."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway_service.auth import behind_the_door
from gateway_service.domain.keys.key import Scope as KeyScope
from ratchet_kit.errors import Unauthenticated
from ratchet_sessions.doors import errors

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Track:
    """Where such a request goes, and what its key must be for."""

    path: str
    needs: KeyScope
    endpoint: Endpoint


class Express:
    """Behind `Door`, in front of FastAPI, whose own way to a function takes longer than all that the function does."""

    def __init__(self, app: ASGIApp, tracks: Mapping[str, Track]) -> None:
        """`tracks`: of POST, by path."""
        self._app = app
        self._tracks = tracks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        track = self._tracks.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if track is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = track  # for its path in the metrics, as Starlette does
        request = Request(scope, receive, send)

        async def answer() -> Response:
            request.state.key.require(track.needs)
            try:
                return await track.endpoint(request)
            except Unauthenticated as error:
                raise behind_the_door(error) from error

        response = await errors.answered(request, answer)
        await response(scope, receive, send)
