"""The HTTP application: its routes, their errors, their OpenAPI."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from google.protobuf.descriptor import Descriptor

from gateway_service.domain.completions.completer import Completer
from gateway_service.domain.completions.router import Router
from gateway_service.domain.keys.authenticator import Authenticator
from gateway_service.domain.keys.logins import Logins
from gateway_service.domain.keys.usage import Usage
from gateway_service.domain.ports import ModelRegistry
from gateway_service.rest import (
    anthropic,
    console,
    docs,
    error_schemas,
    errors,
    generate,
    health,
    login,
    messages,
    openai,
    resources,
    responses,
    schemas,
)
from gateway_service.rest.completing import Completing, components
from gateway_service.rest.door import Door
from gateway_service.rest.express import Express
from gateway_service.rest.middleware import RequestMiddleware
from ratchet_kit.times import Clock

VERSION = "0.1.0"
BODIES = (*openai.BODIES, *responses.BODIES, *anthropic.BODIES)


def build(
    *,
    completer: Completer,
    router: Router,
    registry: ModelRegistry,
    authenticator: Authenticator,
    usage: Usage,
    logins: Logins | None,
    backends: resources.Backends,
    check_ready: Callable[[], Awaitable[None]],
    refresh: Callable[[], Awaitable[None]],
    clock: Clock,
) -> FastAPI:
    """`check_ready` raises Unavailable while requests cannot be answered; `refresh` reads again what is in memory."""
    app = FastAPI(title="Ratchet", version=VERSION, docs_url=None, redoc_url=None, redirect_slashes=False)
    errors.install(app)
    app.include_router(health.build(health.Readiness(check_ready, clock)))
    completing = Completing(completer)
    completions = openai.Completions(completing, clock)
    of_responses = responses.Responses(completing, clock)
    of_messages = anthropic.Messages(completing, completer)
    app.include_router(openai.build(completions, router, registry))
    app.include_router(responses.build(of_responses))
    app.include_router(anthropic.build(of_messages))
    app.include_router(generate.build(completer))
    api, shown = resources.build(backends, refresh)
    app.include_router(api)
    app.include_router(login.build(logins))
    console.install(app)
    docs.install(app)
    _describe(app, shown)
    tracks = (*completions.tracks, *of_responses.tracks, *of_messages.tracks)
    express = Express(app.build_middleware_stack(), {track.path: track for track in tracks})
    app.middleware_stack = RequestMiddleware(Door(express, authenticator, usage))
    return app


def _describe(app: FastAPI, shown: Sequence[Descriptor]) -> None:
    """FastAPI describes what it has models for; the messages of /api/v1 are described from their descriptors."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
            schema["paths"] = {messages.documented_path(path): item for path, item in schema["paths"].items()}
            schema.setdefault("components", {}).setdefault("schemas", {}).update(
                schemas.components(shown) | components(BODIES)
            )
            error_schemas.describe(schema)
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
