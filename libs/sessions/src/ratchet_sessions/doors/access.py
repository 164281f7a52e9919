"""The key that a request carries, and the size that its body may have."""

from collections.abc import Sequence

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope

from ratchet_kit.errors import Unauthenticated

MAX_BODY_BYTES = 16 << 20
"""Of a request; more is 413."""


def key_of(scope: Scope) -> str:
    """As `secret_of`, of a request."""
    return secret_of(_values(scope, b"authorization"), _values(scope, b"x-api-key"))


def secret_of(headers: Sequence[str], api_keys: Sequence[str] = ()) -> str:
    """The key that a request carries in its Authorization headers, or as Anthropic's clients send it, in x-api-key;
    empty without one.

    Raises Unauthenticated where there are several: which of them somebody before us has looked at is not known.
    """
    kind, _, secret = (headers[0] if headers else "").partition(" ")
    secret = secret.strip() if kind.lower() == "bearer" else ""
    if len(headers) > 1 or len(api_keys) > 1 or (headers and api_keys and api_keys[0] != secret):
        raise Unauthenticated("there is more than one Authorization or x-api-key header")
    return api_keys[0] if api_keys else secret


def limited(receive: Receive, most: int = MAX_BODY_BYTES) -> Receive:
    """The same, up to the limit: what comes in chunks says no length before. Raises HTTPException (413) then."""
    received = 0

    async def counted() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > most:
            raise too_large(most)
        return message

    return counted


def too_large(most: int = MAX_BODY_BYTES) -> HTTPException:
    return HTTPException(413, f"the body has more than {most} bytes")


def _values(scope: Scope, header: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == header]
