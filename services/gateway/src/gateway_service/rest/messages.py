"""Protobuf messages as JSON: field names as in the protos, unknown fields refused by name."""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from gateway_service.rest import schemas
from ratchet_kit.errors import FieldViolation, InvalidArgument, invalid
from ratchet_kit.text import clip, encodable
from ratchet_protos.http import Rule
from ratchet_sessions.doors import bodies, numbers

# json_format names the place by nesting: "Failed to parse spec field: Failed to parse steps field: <what>."
_WRAPPED = re.compile(r"Failed to parse (?P<field>\w+) field: (?P<rest>.*)", re.DOTALL)
# ... and sometimes at the end: "Couldn't parse float: x at CreateRunRequest.spec.hyperparameters.learning_rate."
_AT = re.compile(r"(?P<what>.*) at \w+\.(?P<field>[\w.]+?)\.*", re.DOTALL)
_UNKNOWN = re.compile(r'.*has no field named "(?P<field>[^"]*)"', re.DOTALL)
LARGE_BYTES = 64 << 10
"""Of a body that is read in a thread."""
_DOT = "__"
"""In place of the dots of a path variable: Starlette allows none there."""


def to_dict(message: Message) -> dict[str, Any]:
    """All fields, also those at their default, so that a reader need not know the defaults."""
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def to_response(message: Message) -> JSONResponse:
    return JSONResponse(to_dict(message))


def from_dict(values: Mapping[str, Any], kind: type[Message]) -> Message:
    """Raises InvalidArgument that names the field at fault, by its path."""
    _check_texts(values)
    try:
        message = json_format.ParseDict(dict(values), kind())
    except json_format.ParseError as error:
        violation = _violation(str(error))
        field = schemas.find_field(kind.DESCRIPTOR, violation.field)
        misread = field and not field.is_repeated and not violation.description.startswith("Value out of range")
        # In Python's words: "invalid literal for int() with base 10".
        wanted = numbers.wanted(field) if field and misread else ""
        raise invalid(violation.field, wanted or violation.description) from error
    except OverflowError as error:  # which it lets through: of 400 digits for a float, 1e400 for an enum
        raise invalid("body", f"holds a number that is too large: {error}") from error
    numbers.check(values, kind.DESCRIPTOR)
    return message


def route_path(rule: Rule) -> str:
    """The path of a rule as Starlette writes it, whose variables have no dots."""
    return rule.path.replace(".", _DOT)


def documented_path(path: str) -> str:
    """Of a route. Its variables have no dots: tools that read OpenAPI take these for attributes."""
    return path.replace(_DOT, "_")


async def from_request(request: Request, rule: Rule, kind: type[Message]) -> Message:
    """The message of a request, by the rule from its path, its body and its query.

    Raises InvalidArgument when a field is unknown or malformed, or the body or the query contradicts the path.
    """
    values: dict[str, Any] = await _body(request) if rule.body else {}
    if rule.body not in ("", "*"):
        values = {rule.body: values}
    if rule.body != "*":
        for path in request.query_params:
            _put(values, path, _query_value(kind, path, request.query_params.getlist(path)))
    for path in rule.variables:
        _put(values, path, request.path_params[path.replace(".", _DOT)])
    if len(await request.body()) < LARGE_BYTES:
        return from_dict(values, kind)
    return await asyncio.to_thread(from_dict, values, kind)


def _put(values: dict[str, Any], path: str, value: Any) -> None:
    """Sets a field by its path. Raises InvalidArgument when it has another value already."""
    *parents, name = path.split(".")
    for parent in parents:
        values = values.setdefault(parent, {})
        if not isinstance(values, dict):
            raise invalid(path, f"is in {parent}, which must be an object, and is {_shown(values)}")
    if str(values.setdefault(name, value)) != str(value):
        raise invalid(path, f"is {_shown(values[name])}, but the path says {_shown(value)}: leave it out")


def _shown(value: Any) -> str:
    """As the body has it."""
    return clip(json.dumps(value, ensure_ascii=False), 100)


def _query_value(kind: type[Message], path: str, texts: list[str]) -> Any:
    """The texts of a query as JSON has them: a list for a repeated field, true and false for a bool."""
    field = schemas.find_field(kind.DESCRIPTOR, path)
    if field is None:
        return texts[-1]
    if field.type == FieldDescriptor.TYPE_BOOL:
        return {"true": True, "false": False}.get(texts[-1], texts[-1])
    return texts if field.is_repeated else texts[-1]


async def _body(request: Request) -> dict[str, Any]:
    body = await bodies.read(request)
    if not isinstance(body, dict | None):
        raise InvalidArgument("the body must be a JSON object")
    return body or {}


def _check_texts(values: Mapping[str, Any]) -> None:
    """Raises InvalidArgument for half of a surrogate pair: in a name of a field or of an enum's value protobuf fails at
    it. Without recursion: nobody has looked at the depth."""
    left: list[tuple[str, Any]] = [("", values)]
    while left:
        place, value = left.pop()
        texts = [value] if isinstance(value, str) else value if isinstance(value, dict) else ()
        for text in texts:
            if not text.isascii() and encodable(text) != text:
                raise invalid(place or "body", "must not hold an unpaired surrogate")
        if isinstance(value, dict):
            left += [(f"{place}.{name}".lstrip("."), one) for name, one in value.items()]
        elif isinstance(value, list):
            left += [(place, one) for one in value]


def _violation(text: str) -> FieldViolation:
    path = []
    while match := _WRAPPED.fullmatch(text):
        path.append(match["field"])
        text = match["rest"]
    if unknown := _UNKNOWN.match(text):
        return FieldViolation(".".join([*path, unknown["field"]]), "is not known")
    field = ".".join(path)
    if at := _AT.fullmatch(text):
        text, field = at["what"], max(field, at["field"], key=len)
    return FieldViolation(field or "body", text.split("\n")[0].rstrip("."))
