"""Requests of any RPC, made from its proto: for tests that walk all of them."""

from collections.abc import Container, Iterator, Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message


def text_fields(
    message: Descriptor, without: Container[str] = (), above: tuple[str, ...] = (), seen: frozenset[str] = frozenset()
) -> Iterator[list[str]]:
    """The path of each field of texts, also below other messages; a message within itself is left out, as are fields
    of the names in `without`."""
    for one in message.fields:
        if one.name in without or one.full_name in seen:
            continue
        if one.message_type is not None and not one.message_type.GetOptions().map_entry:
            yield from text_fields(one.message_type, without, (*above, one.name), seen | {one.full_name})
        elif one.type == FieldDescriptor.TYPE_STRING:
            yield [*above, one.name]


def fill(message: Any, path: Sequence[str], text: str) -> None:
    """Sets the field of a path, or adds to it; of numbers to 1."""
    for name in path[:-1]:
        message = getattr(message, name)
        message = message if isinstance(message, Message) else message.add()
    field = message.DESCRIPTOR.fields_by_name[path[-1]]
    value = text if field.type == FieldDescriptor.TYPE_STRING else 1
    if field.is_repeated:
        getattr(message, path[-1]).append(value)
    else:
        setattr(message, path[-1], value)
