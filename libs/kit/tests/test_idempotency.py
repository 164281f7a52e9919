from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from ratchet_kit.errors import AlreadyExists, InvalidArgument
from ratchet_kit.idempotency import Made, Request, once


def test_the_same_content_has_the_same_fingerprint():
    assert Request.of("a", {"x": 1, "y": [2]}, "z") == Request.of("a", {"y": [2], "x": 1}, "z")
    assert Request.of("a", "x").fingerprint != Request.of("a", "y").fingerprint


def test_a_request_without_an_id_is_never_a_repetition():
    first, second = Request.of("", "x"), Request.of("", "x")
    assert first.id.startswith("req_")
    assert first.id != second.id


def test_an_id_used_for_something_else_exists_already():
    request = Request.of("a", "x")
    request.check_same(request.fingerprint, "run")
    with pytest.raises(AlreadyExists, match="request_id 'a' was used before, for another run; use a new one"):
        request.check_same(Request.of("a", "y").fingerprint, "run")


async def test_a_thing_is_made_once():
    made: Made[str] = Made("run")
    created = []

    async def create(request: Request) -> str:
        async def find() -> str | None:
            return made.find(request)

        async def make() -> str:
            created.append(request.id)
            made.add(request, f"run_{len(created)}")
            return f"run_{len(created)}"

        return await once(find, make)

    assert await create(Request.of("a", "x")) == "run_1"
    assert await create(Request.of("a", "x")) == "run_1"
    assert await create(Request.of("b", "x")) == "run_2"
    with pytest.raises(AlreadyExists):
        await create(Request.of("a", "y"))
    made.remove({"run_1"})
    assert await create(Request.of("a", "y")) == "run_3"


def test_an_id_that_no_column_holds_is_refused():
    assert Request.of("x" * 200).id == "x" * 200
    with pytest.raises(InvalidArgument, match="request_id must have at most 200 characters"):
        Request.of("x" * 201)


def test_what_is_as_by_default_is_not_part_of_a_request():
    """So that a study that was begun before an upgrade finds its runs after it."""

    @dataclass(frozen=True)
    class Limits:
        wait: timedelta = timedelta(minutes=1)
        names: frozenset[str] = frozenset()

    @dataclass(frozen=True)
    class Old:
        steps: int
        limits: Limits = Limits()

    @dataclass(frozen=True)
    class New:
        steps: int
        limits: Limits = Limits()
        added: tuple[str, ...] = ()
        rates: dict[str, float] = field(default_factory=dict)

    assert Request.of("a", Old(3)) == Request.of("a", New(3)) != Request.of("a", New(4))
    assert Request.of("a", New(3)) != Request.of("a", New(3, added=("x",)))
    longer = Limits(timedelta(minutes=2), frozenset({"b", "a"}))
    assert Request.of("a", Old(3, longer)) == Request.of("a", New(3, longer)) != Request.of("a", Old(3))
    with pytest.raises(TypeError, match="object cannot be the content of a request"):
        Request.of("a", object())
