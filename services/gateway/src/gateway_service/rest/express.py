"""ASGI: the requests that come most often go to their functions directly. FastAPI describes these, as all routes."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway_service.auth import behind_the_door
from gateway_service.domain.keys.key import Scope as KeyScope
from gateway_service.rest import errors
from ratchet_kit.errors import Internal, RatchetError

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
        response = await self._answer(track, request)
        await response(scope, receive, send)

    async def _answer(self, track: Track, request: Request) -> Response:
        try:
            request.state.key.require(track.needs)
            return await track.endpoint(request)
        except RatchetError as error:
            return errors.to_response(request, behind_the_door(error))
        except HTTPException as error:
            return errors.http_response(request, error)
        except ClientDisconnect:
            return errors.to_response(request, errors.gone())
        except Exception as error:  # noqa: BLE001 (logged and answered there)
            return errors.to_response(request, Internal(f"{type(error).__name__}: {error}"))
