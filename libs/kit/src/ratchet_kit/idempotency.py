"""Creates that may be sent twice.

The shape is the same in every service. The use case computes `Request.of(...)`, returns what `find(request)` of its
store gives, and otherwise makes the thing and returns what `create(thing, request)` gives: what was stored first under
the request. A store keeps `request.columns` beside the thing (`ratchet_kit.sql`: `request_columns`, `Database.made_by`)
or, in memory, in `Made`.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Set
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import timedelta
from typing import Generic, TypeVar

from ratchet_kit import projects
from ratchet_kit.errors import AlreadyExists, FieldViolation, InvalidArgument
from ratchet_kit.ids import new_id

T = TypeVar("T")

MAX_ID = 200
"""Characters: what the column of `request_columns` holds."""


@dataclass(frozen=True, slots=True)
class Request:
    """What makes a create idempotent: the caller's id, and a digest of what was asked under it."""

    id: str
    fingerprint: str
    owner: str = ""
    """Whose id it is, where each caller has ids of its own: another's same id is another request. A project has its own
    ids in any case."""

    @classmethod
    def of(cls, request_id: str, *content: object, owner: str = "") -> "Request":
        """`content` is JSON, with dataclasses, times and sets in it. Without an id the request gets one of its own, so
        that it is never a repetition.

        Raises InvalidArgument for an id that no store holds.
        """
        if len(request_id) > MAX_ID:
            rule = f"must have at most {MAX_ID} characters"
            raise InvalidArgument(f"request_id {rule}", [FieldViolation("request_id", rule)])
        text = json.dumps(content, sort_keys=True, default=_plain)
        return cls(request_id or new_id("req"), hashlib.sha256(text.encode()).hexdigest(), owner + projects.suffix())

    @property
    def key(self) -> str:
        """What a store knows it by: the id, or a digest of the id and its owner."""
        if not self.owner:
            return self.id
        return hashlib.sha256(f"{len(self.owner)} {self.owner} {self.id}".encode()).hexdigest()

    @property
    def columns(self) -> dict[str, str]:
        """What a store keeps of it."""
        return {"request_id": self.key, "fingerprint": self.fingerprint}

    def check_same(self, fingerprint: str, what: str) -> None:
        """Raises AlreadyExists when this id was used before to ask for something else: another `what`."""
        if self.fingerprint != fingerprint:
            raise AlreadyExists(f"request_id {self.id!r} was used before, for another {what}; use a new one")


def _plain(content: object) -> object:
    """As JSON. Of a dataclass what is as it is by default is left out, so that a field that a later release adds
    leaves the fingerprints of requests of old as they are: they go on over an upgrade."""
    if isinstance(content, timedelta):
        return content.total_seconds()
    if isinstance(content, Mapping):
        return dict(content)
    if isinstance(content, Set):
        return sorted(content)
    if not is_dataclass(content):
        raise TypeError(f"{type(content).__name__} cannot be the content of a request")
    found = {}
    for field in fields(content):
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        if (value := getattr(content, field.name)) != default:
            found[field.name] = value
    return found


async def once(find: Callable[[], Awaitable[T | None]], create: Callable[[], Awaitable[T]]) -> T:
    """What was made before under the request, as `find` gives it; otherwise what `create` makes."""
    existing = await find()
    return await create() if existing is None else existing


class Made(Generic[T]):
    """Which thing each request made: for stores in memory. `T` is the thing or its key."""

    def __init__(self, what: str) -> None:
        """`what` is the kind of thing, for errors: "run"."""
        self._what = what
        self._made: dict[str, tuple[str, T]] = {}

    def find(self, request: Request) -> T | None:
        """Raises AlreadyExists when the request's id was used to ask for something else."""
        if request.key not in self._made:
            return None
        fingerprint, thing = self._made[request.key]
        request.check_same(fingerprint, self._what)
        return thing

    def add(self, request: Request, thing: T) -> None:
        self._made[request.key] = (request.fingerprint, thing)

    def remove(self, things: "set[T] | frozenset[T]") -> None:
        """Forgets the requests that made these: they were deleted."""
        self._made = {id: made for id, made in self._made.items() if made[1] not in things}
