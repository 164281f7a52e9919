"""Requests of a client, and readers of their answers, as values. Only a transport opens a connection."""

import functools
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from ratchet_client.errors import ApiError
from ratchet_protos import http

T = TypeVar("T")
R = TypeVar("R", bound=Message)

Json = Mapping[str, Any]

PAGE_SIZE = 200


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request to the gateway."""

    verb: str
    path: str
    query: Json = field(default_factory=dict)
    body: Json | None = None


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request with one answer."""

    request: Request
    read: Callable[[Json], T]


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    items: Sequence[T]
    next_page_token: str


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A list that is requested page by page."""

    at: Callable[[str], Call[Page[T]]]
    """The call that asks for the page of a token; the first page has the empty token."""


@dataclass(frozen=True, slots=True)
class Stream(Generic[T]):
    """A request that is answered by server-sent events, each read to an item."""

    request: Request
    read: Callable[[Json], T]


def call(message: Message, reply: type[R], pick: Callable[[R], T]) -> Call[T]:
    """`message` is sent, `pick` takes the result from the `reply`."""
    return Call(request_of(message), lambda body: pick(from_json(body, reply)))


def nothing(message: Message, reply: type[Message]) -> Call[None]:
    """A call whose reply says nothing."""
    return call(message, reply, lambda _: None)


def stream(message: Message, reply: type[R], pick: Callable[[R], T]) -> Stream[T]:
    return Stream(request_of(message), lambda body: pick(from_json(body, reply)))


def listing(message: R, reply: type[Message], pick: Callable[[Any], Sequence[T]]) -> Listing[T]:
    """`message` has a page size and a page token, the `reply` the token of the next page."""

    def at(token: str) -> Call[Page[T]]:
        request = type(message)()
        request.CopyFrom(message)
        setattr(request, "page_size", PAGE_SIZE)  # noqa: B010  every list request has both, no common type says so
        setattr(request, "page_token", token)  # noqa: B010
        return call(request, reply, lambda page: Page(pick(page), getattr(page, "next_page_token")))  # noqa: B009

    return Listing(at)


def request_of(message: Message) -> Request:
    """The HTTP request that carries a message, by the google.api.http rule of the RPC that takes it.

    The path takes its fields from the message; what is left is the body, or the query where the rule has no body.
    Raises ApiError for a field that is no segment of a path.
    """
    rule = _rule(message.DESCRIPTOR)
    values = {name: _segment(name, str(attrgetter(name)(message))) for name in rule.variables}
    path = re.sub(r"{([\w.]+)}", lambda variable: values[variable[1]], rule.path)
    rest = dict(json_format.MessageToDict(message, preserving_proto_field_name=True))
    for name in rule.variables:
        *outer, last = name.split(".")
        functools.reduce(lambda inside, key: inside.get(key, {}), outer, rest).pop(last, None)
    return Request(rule.verb, path, body=rest) if rule.body else Request(rule.verb, path, query=rest)


def _segment(name: str, value: str) -> str:
    """Servers read "%2F" as "/", and an empty segment or one of dots away: it would be a request for something else."""
    if value in ("", ".", "..") or "/" in value:
        raise ApiError(400, "INVALID_ARGUMENT", f"{name} must be a name or an id; not {value[:80]!r}")
    return quote(value, safe="")


@functools.cache
def _rule(request: Descriptor) -> http.Rule:
    """Each RPC has a request message of its own."""
    methods = [method for service in request.file.services_by_name.values() for method in service.methods]
    return http.rules(next(method for method in methods if method.input_type is request))[0]


def to_json(message: Message) -> dict[str, Any]:
    """A message as REST shows it: field names as in the protos, zeros and empty texts among them."""
    return dict(
        json_format.MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    )


def from_json(body: Json, kind: type[R]) -> R:
    """Fields that this SDK does not know are passed over: the platform may be newer."""
    return json_format.ParseDict(dict(body), kind(), ignore_unknown_fields=True)


def new_request_id() -> str:
    """A new id, under which a create that is sent twice creates one resource."""
    return uuid.uuid4().hex
