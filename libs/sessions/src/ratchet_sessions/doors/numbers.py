"""Numbers, lengths of time and times in requests, as JSON writes them.

Python's own readers, and so pydantic and json_format, also take "1_000", "+5", " 5" and the digits of other scripts.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from google.protobuf.descriptor import FieldDescriptor
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from ratchet_kit.errors import invalid

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WRITTEN = {
    "google.protobuf.Duration": (re.compile(r"-?[0-9]+(?:\.[0-9]{1,9})?s"), "must be a number of seconds such as 3.5s"),
    "google.protobuf.Timestamp": (
        re.compile(
            r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:[0-9]{2})"
        ),
        "must be a time such as 2026-01-31T12:00:00Z",
    ),
}
_INFINITE = ("NaN", "Infinity", "-Infinity")
_FLOATS = (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT)
_WHOLE = (
    *(FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64),
    *(FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64),
)


def check(values: Mapping[str, Any], message: Any, place: str = "") -> None:
    """Of JSON that json_format has read as the message of this descriptor. Raises InvalidArgument that names the first
    field whose text is no such number."""
    for name, value in values.items():
        field = message.fields_by_name.get(name) or message.fields_by_camelcase_name[name]
        path = f"{place}{field.name}"
        if field.message_type and field.message_type.GetOptions().map_entry:
            key, of_key = field.message_type.fields
            for one in value or ():
                _check(one, key, path)
                _check(value[one], of_key, f"{path}.{one}")
        elif field.is_repeated:
            for one in value or ():
                _check(one, field, path)
        else:
            _check(value, field, path)


def wanted(field: FieldDescriptor) -> str:
    """What a number must be; empty for a field of another kind."""
    if field.cpp_type in _WHOLE:
        return "must be a whole number such as 5"
    return "must be a number such as 0.5" if field.cpp_type in _FLOATS else ""


def _check(value: Any, field: FieldDescriptor, path: str) -> None:
    if field.message_type and isinstance(value, dict):
        check(value, field.message_type, f"{path}.")
    if not isinstance(value, str):
        return
    if field.message_type:
        if field.message_type.full_name not in _WRITTEN:
            raise invalid(path, "must be an object")  # json_format takes "" for an empty one
        pattern, description = _WRITTEN[field.message_type.full_name]
        if not pattern.fullmatch(value):
            raise invalid(path, description)
    elif number := wanted(field):
        if not (_NUMBER.fullmatch(value) or (field.cpp_type in _FLOATS and value in _INFINITE)):
            raise invalid(path, number)
    elif field.enum_type and value not in field.enum_type.values_by_name and not _NUMBER.fullmatch(value):
        raise invalid(path, "must be one of " + ", ".join(field.enum_type.values_by_name))


def _number(value: Any) -> Any:
    if isinstance(value, (str, bool)):
        raise PydanticCustomError("number", "must be a number")
    return value


def _key(value: Any) -> Any:
    if not (isinstance(value, str) and re.fullmatch("0|[1-9][0-9]{0,9}", value)):
        raise PydanticCustomError("number", "must be a whole number")
    return value


Whole = Annotated[int, BeforeValidator(_number)]
"""5 and 5.0, not "5" nor true."""
Number = Annotated[float, BeforeValidator(_number)]
WholeKey = Annotated[int, BeforeValidator(_key)]
"""Of a JSON object, whose keys are texts."""
