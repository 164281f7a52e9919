"""Bodies of requests, read as JSON without holding the event loop.

Reading JSON holds it, in a thread as well: it lets go of Python's lock for nobody. So what would take long is refused
by its number of values, which is counted in a few milliseconds; texts may be as long as the body.
"""

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request

from ratchet_kit import json_text
from ratchet_kit.errors import InvalidArgument
from ratchet_sessions.doors.errors import invalid_body

B = TypeVar("B", bound=BaseModel)

MAX_VALUES = 1 << 18
"""Numbers, texts and the rest, of one body: 50 ms of reading, and as much of checking."""
MAX_DIGITS = 4_000
_SEPARATOR, _QUOTE = b",", b'"'


async def read(request: Request) -> Any:
    """None for no body. Raises InvalidArgument for what is no JSON, HTTPException (413) for more than MAX_VALUES."""
    body = await request.body()
    if not body:
        return None
    if has_more_values(body, MAX_VALUES):
        raise HTTPException(413, f"the body has more than {MAX_VALUES} values")
    try:
        return json_text.read(body, most_digits=MAX_DIGITS, constants=False)
    except json_text.NotJson as error:
        raise InvalidArgument(f"the body {error}") from error


async def read_as(request: Request, shape: type[B]) -> B:
    """Raises InvalidArgument that names the fields at fault, and what `read` raises."""
    try:
        return shape.model_validate(await read(request))
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        raise invalid_body([(fault["loc"], fault["msg"]) for fault in faults]) from error


def has_more_values(body: bytes, limit: int) -> bool:
    """Whether JSON has more values than `limit`, but for those that are alone in an array or an object. Linear."""
    if body.count(_SEPARATOR) < limit:
        return False
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")  # the quotes that are left begin or end a text
    if plain.count(_QUOTE) > 4 * limit:  # a name and a value each
        return True
    return sum(part.count(_SEPARATOR) for part in plain.split(_QUOTE)[::2]) >= limit
