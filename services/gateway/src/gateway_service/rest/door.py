"""ASGI middleware: who is let in. The key is looked at before the body is, and no body is larger than it may be."""

from contextlib import ExitStack

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway_service.domain.keys.authenticator import Authenticator
from gateway_service.domain.keys.caller import set_caller
from gateway_service.domain.keys.usage import Usage
from ratchet_kit import logs
from ratchet_kit.errors import RatchetError
from ratchet_sessions.doors import errors
from ratchet_sessions.doors.access import MAX_BODY_BYTES, key_of, limited, too_large

KEYED = ("/v1/", "/api/v1/", "/generate")
"""Below these every request needs a key; what else there is, is open, and its bodies are small."""
INSIDER = "ratchet.key"
"""In the scope of a call that the gateway makes itself: the key that it acts for. No server sets it."""
MAX_OPEN_BODY_BYTES = 64 << 10
"""As MAX_BODY_BYTES, without a key."""


class Door:
    def __init__(self, app: ASGIApp, authenticator: Authenticator, usage: Usage) -> None:
        self._app = app
        self._authenticator = authenticator
        self._usage = usage

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not scope["path"].startswith(KEYED):
            await self._app(scope, limited(receive, MAX_OPEN_BODY_BYTES), send)
            return
        headers = dict(scope["headers"])
        with ExitStack() as stack:
            try:
                key = scope.get(INSIDER) or await self._authenticator.identify(key_of(scope))
                stack.enter_context(self._usage.admit(key))
            except RatchetError as error:
                await errors.to_response(Request(scope), error)(scope, receive, send)
                return
            set_caller(key)
            scope.setdefault("state", {})["key"] = key
            stack.enter_context(logs.bound(actor=key.id, project=key.view))
            length = headers.get(b"content-length", b"")
            if length.isdigit() and int(length) > MAX_BODY_BYTES:
                await errors.http_response(Request(scope), too_large())(scope, receive, send)
                return
            await self._app(scope, limited(receive), send)
