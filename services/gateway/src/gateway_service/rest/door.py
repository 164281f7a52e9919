"""ASGI middleware: who is let in. The key is looked at before the body is, and no body is larger than it may be."""

from contextlib import ExitStack

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway_service.auth import secret_of
from gateway_service.domain.keys.authenticator import Authenticator
from gateway_service.domain.keys.caller import set_caller
from gateway_service.domain.keys.usage import Usage
from gateway_service.rest import errors
from ratchet_kit import logs
from ratchet_kit.errors import RatchetError

KEYED = ("/v1/", "/api/v1/", "/generate")
"""Below these every request needs a key; what else there is, is open, and its bodies are small."""
INSIDER = "ratchet.key"
"""In the scope of a call that the gateway makes itself: the key that it acts for. No server sets it."""
MAX_BODY_BYTES = 16 << 20
"""Of a request; more is 413."""
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
            await self._app(scope, self._limited(receive, MAX_OPEN_BODY_BYTES), send)
            return
        headers = dict(scope["headers"])
        with ExitStack() as stack:
            try:
                key = scope.get(INSIDER) or await self._authenticator.identify(
                    secret_of(_values(scope, b"authorization"), _values(scope, b"x-api-key"))
                )
                stack.enter_context(self._usage.admit(key))
            except RatchetError as error:
                await errors.to_response(Request(scope), error)(scope, receive, send)
                return
            set_caller(key)
            scope.setdefault("state", {})["key"] = key
            stack.enter_context(logs.bound(actor=key.id, project=key.view))
            length = headers.get(b"content-length", b"")
            if length.isdigit() and int(length) > MAX_BODY_BYTES:
                await errors.http_response(Request(scope), _too_large())(scope, receive, send)
                return
            await self._app(scope, self._limited(receive), send)

    def _limited(self, receive: Receive, most: int = MAX_BODY_BYTES) -> Receive:
        """The same, up to the limit: what comes in chunks says no length before."""
        received = 0

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > most:
                raise _too_large(most)
            return message

        return limited


def _values(scope: Scope, header: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == header]


def _too_large(most: int = MAX_BODY_BYTES) -> HTTPException:
    return HTTPException(413, f"the body has more than {most} bytes")
