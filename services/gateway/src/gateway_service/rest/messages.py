"""Protobuf messages as JSON: field names as in the protos, unknown fields refused by name."""

import re
from collections.abc import Mapping
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from ratchet_kit.errors import FieldViolation, InvalidArgument

# json_format tells where by wrapping: "Failed to parse spec field: Failed to parse steps field: <what>."
_WRAPPED = re.compile(r"Failed to parse (?P<field>\w+) field: (?P<rest>.*)", re.DOTALL)
# ... and sometimes at the end: "Couldn't parse float: x at CreateRunRequest.spec.hyperparameters.learning_rate."
_AT = re.compile(r"(?P<what>.*) at \w+\.(?P<field>[\w.]+?)\.*", re.DOTALL)
_UNKNOWN = re.compile(r'.*has no field named "(?P<field>[^"]*)"', re.DOTALL)


def to_dict(message: Message) -> dict[str, Any]:
    """All fields, also those at their default, so that a reader need not know the defaults."""
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def to_response(message: Message) -> JSONResponse:
    return JSONResponse(to_dict(message))


def from_dict(values: Mapping[str, Any], kind: type[Message]) -> Message:
    """Raises InvalidArgument that names the field at fault, by its path."""
    try:
        return json_format.ParseDict(dict(values), kind())
    except json_format.ParseError as error:
        violation = _violation(str(error))
        raise InvalidArgument(f"{violation.field}: {violation.description}", [violation]) from error


async def from_request(request: Request, kind: type[Message]) -> Message:
    """The message of a request: its body (or without one its query), and the parameters of its path.

    Raises InvalidArgument when a field is unknown or malformed, or the body contradicts the path.
    """
    values = dict(request.query_params)
    if request.method not in ("GET", "DELETE"):
        values |= await _body(request)
    for name, value in request.path_params.items():
        if str(values.setdefault(name, value)) != value:
            text = f"is {values[name]!r}, but the path says {value!r}"
            raise InvalidArgument(f"{name} {text}", [FieldViolation(name, text)])
    return from_dict(values, kind)


async def _body(request: Request) -> dict[str, Any]:
    if not await request.body():
        return {}
    try:
        body = await request.json()
    except ValueError as error:
        raise InvalidArgument(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise InvalidArgument("the body must be a JSON object")
    return body


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


def scalar_fields(message: Descriptor) -> list[FieldDescriptor]:
    """The fields that a query can set."""
    return [field for field in message.fields if not field.message_type and not field.is_repeated]
