"""OpenAPI of RPCs: JSON Schemas of their messages, as json_format writes them, and their parameters.

https://protobuf.dev/programming-guides/json/
"""

import re
from collections.abc import Iterable
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from ratchet_protos.http import Rule

Schema = dict[str, Any]

_INT32: Schema = {"type": "integer", "format": "int32"}
_INT64: Schema = {"type": "string", "format": "int64"}
_SCALARS: dict[int, Schema] = {
    FieldDescriptor.TYPE_DOUBLE: {"type": "number", "format": "double"},
    FieldDescriptor.TYPE_FLOAT: {"type": "number", "format": "float"},
    FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.TYPE_STRING: {"type": "string"},
    FieldDescriptor.TYPE_BYTES: {"type": "string", "format": "byte"},
    FieldDescriptor.TYPE_INT32: _INT32,
    FieldDescriptor.TYPE_SINT32: _INT32,
    FieldDescriptor.TYPE_SFIXED32: _INT32,
    FieldDescriptor.TYPE_UINT32: _INT32 | {"minimum": 0},
    FieldDescriptor.TYPE_FIXED32: _INT32 | {"minimum": 0},
    FieldDescriptor.TYPE_INT64: _INT64,
    FieldDescriptor.TYPE_SINT64: _INT64,
    FieldDescriptor.TYPE_SFIXED64: _INT64,
    FieldDescriptor.TYPE_UINT64: _INT64,
    FieldDescriptor.TYPE_FIXED64: _INT64,
}
_WELL_KNOWN: dict[str, Schema] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Struct": {"type": "object"},
    "google.protobuf.Duration": {"type": "string", "pattern": r"^-?\d+(\.\d{1,9})?s$", "examples": ["3.5s"]},
}


def name_of(message: Descriptor) -> str:
    """Its component: "trainer.v1.Run"."""
    return str(message.full_name).removeprefix("ratchet.")


def reference(message: Descriptor) -> Schema:
    return _WELL_KNOWN.get(message.full_name) or {"$ref": f"#/components/schemas/{name_of(message)}"}


def words(rpc: str) -> str:
    """ "CreateRun" as a summary: "Create run"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", rpc).capitalize()


def operation(rule: Rule, request: Descriptor) -> Schema:
    """The parameters and the body of a route."""
    parameters = [
        {"name": path.replace(".", "_"), "in": "path", "required": True, "schema": field_schema(field)}
        for path in rule.variables
        if (field := find_field(request, path))
    ]
    if rule.body == "*":
        return {"parameters": parameters, "requestBody": _json(reference(request))}
    # A oneof of which the path has one field leaves nothing for the query.
    chosen = {field.name for oneof in request.oneofs for field in oneof.fields if len(oneof.fields) > 1}
    parameters += [
        {"name": field.name, "in": "query", "required": False, "schema": field_schema(field)}
        for field in request.fields
        if not field.message_type and field.name not in (*rule.variables, *chosen, rule.body)
    ]
    if not rule.body:
        return {"parameters": parameters}
    return {"parameters": parameters, "requestBody": _json(field_schema(request.fields_by_name[rule.body]))}


def _json(schema: Schema) -> Schema:
    return {"content": {"application/json": {"schema": schema}}}


def find_field(message: Any, path: str) -> FieldDescriptor | None:
    """The field at a path such as "candidate.model" of a message's descriptor; None where there is none."""
    field: FieldDescriptor | None = None
    for name in path.split("."):
        field = message.fields_by_name.get(name) if message else None
        message = field.message_type if field else None
    return field


def components(messages: Iterable[Descriptor]) -> dict[str, Schema]:
    """The schemas of these messages and of all that they hold."""
    found: dict[str, Schema] = {}
    waiting = list(messages)
    while waiting:
        message = waiting.pop()
        if name_of(message) in found or message.full_name in _WELL_KNOWN:
            continue
        found[name_of(message)] = _message(message)
        values = [_map_value(field) or field for field in message.fields]
        waiting.extend(value.message_type for value in values if value.message_type)
    return dict(sorted(found.items()))


def field_schema(field: FieldDescriptor) -> Schema:
    value = _map_value(field)
    if value is not None:
        return {"type": "object", "additionalProperties": _value(value)}
    if field.is_repeated:
        return {"type": "array", "items": _value(field)}
    return _value(field)


def _message(message: Descriptor) -> Schema:
    schema: Schema = {
        "type": "object",
        "title": message.name,
        "properties": {field.name: field_schema(field) for field in message.fields},
        "additionalProperties": False,
    }
    choices = [oneof for oneof in message.oneofs if not oneof.name.startswith("_")]
    if choices:
        schema["description"] = " ".join(
            f"At most one of {', '.join(field.name for field in oneof.fields)} is set." for oneof in choices
        )
    return schema


def _value(field: FieldDescriptor) -> Schema:
    if field.message_type:
        return reference(field.message_type)
    if field.enum_type:
        return {"type": "string", "enum": [value.name for value in field.enum_type.values]}
    return dict(_SCALARS[field.type])


def _map_value(field: FieldDescriptor) -> FieldDescriptor | None:
    """The field that holds a map's values; None when the field is no map."""
    if field.message_type and field.message_type.GetOptions().map_entry:
        value: FieldDescriptor = field.message_type.fields_by_name["value"]
        return value
    return None
