"""What crosses between a program and its tests, with both sides in this process; and what a hostile program sends."""

import json
import socket
import types
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import date, timedelta, timezone
from pathlib import PurePosixPath
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_service.cage.lane import rehearsal
from sandbox_service.cage.objects import owner, proxies


def program(source: str) -> Any:
    mine, theirs = socket.socketpair()
    module = types.ModuleType("program")
    exec(source, module.__dict__)
    made = rehearsal._Rehearsed(mine, owner.Owner(theirs, module, module.__dict__["f"]))
    made.sockets = mine, theirs
    return made.names("f", ("f",))["f"]


numbers = st.integers() | st.floats(allow_nan=False) | st.booleans() | st.fractions()
decimals = st.decimals(allow_nan=False)
zones = st.none() | st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone)
hashable = st.recursive(
    st.none()
    | numbers
    | decimals
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False)
    | st.dates()
    | st.datetimes(timezones=zones)
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.ip_addresses()
    | st.builds(range, st.integers(-9, 9), st.integers(-9, 9))
    | st.sampled_from([int, ValueError, type(None), Counter, date, PurePosixPath("/a/b"), ..., NotImplemented]),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=5,
)
values = st.recursive(
    hashable,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(hashable, inner, max_size=4)
        | st.sets(hashable, max_size=4)
        | st.tuples(inner)
        | st.lists(inner, max_size=3).map(deque)
        | st.dictionaries(hashable, inner, max_size=3).map(OrderedDict)
        | st.dictionaries(hashable, inner, max_size=3).map(lambda items: defaultdict(list, items))
        | st.dictionaries(st.text(), st.integers(), max_size=3).map(Counter)
        | st.binary().map(bytearray)
        | st.builds(slice, st.none() | st.integers())
    ),
    max_leaves=15,
)
ECHO = "def f(x):\n    return [x, (x,)]\n"
COPY = "import copy\ndef f(x):\n    return copy.deepcopy(x)\n"


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same type at every depth that matters to tests."""
    if type(one) is not type(other) or one != other:
        return False
    if isinstance(one, list | tuple | deque):
        return all(map(same, one, other))
    return not isinstance(one, dict) or all(same(item, other[key]) for key, item in one.items())


@given(values)
def test_what_a_test_passes_comes_back_as_what_it_is(value: Any) -> None:
    back, (again,) = program(ECHO)(value)
    assert same(back, value)
    assert back is again or not isinstance(value, list | dict | set | deque | bytearray)
    assert back is value or not isinstance(value, list | dict | set | deque | bytearray)


@given(values)
def test_what_a_program_makes_arrives_as_what_it_is(value: Any) -> None:
    assert same(program(COPY)(value), value)


@given(st.lists(st.sampled_from(["append", "pop", "clear", "nest", "key", "own"]), max_size=8))
def test_what_changes_in_place_is_the_same_on_both_sides(steps: list[str]) -> None:
    source = (
        "def f(x, y, step):\n"
        "    if step == 'append': x.append(len(x))\n"
        "    if step == 'pop' and x: x.pop()\n"
        "    if step == 'clear': x.clear()\n"
        "    if step == 'nest': x.append(y)\n"
        "    if step == 'key': y[len(y)] = [x]\n"
        "    if step == 'own': x.append([[1]])\n"
    )
    here: dict[str, Any] = {}
    exec(source, here)
    call = program(source)
    mine, theirs = ([], {}), ([], {})
    for step in steps:
        call(*mine, step)
        here["f"](*theirs, step)
        assert str(mine) == str(theirs)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from([*"tdisfbcolmngxrkvqe", "kinds", "message", "args"]), inner, max_size=2)
        | st.builds(lambda tag, body: {tag: body}, st.sampled_from("tdislmngxrkv"), inner)
    ),
    max_leaves=25,
)
errors = st.fixed_dictionaries(
    {"kinds": st.sampled_from([["OSError"], ["SyntaxError"], ["Own", "ValueError"]]), "message": st.text(max_size=5)},
    optional={
        "args": json_values,
        "held": json_values
        | st.dictionaries(st.sampled_from(["filename", "lineno", "__notes__", "__class__", "more"]), json_values),
    },
)
names = st.sampled_from(["Decimal", "deque", "Counter", "namedtuple", "numpy.ndarray", "StringIO", "Pattern", "array"])
messages = st.fixed_dictionaries(
    {},
    optional={
        "value": json_values
        | st.builds(lambda name, parts: {"l": [name, *parts]}, names, st.lists(json_values, max_size=3)),
        "raised": json_values | errors,
        "changed": json_values,
        "dropped": json_values,
        "do": st.sampled_from(["call", "getattr", "special", "await", "x"]),
        "on": st.integers(-2, 3) | json_values,
        "arguments": json_values,
        "keywords": json_values,
    },
)


@settings(deadline=None)
@given(messages | json_values)
def test_whatever_a_program_sends_ends_in_a_value_its_exception_or_as_garbled(sent: Any) -> None:
    mine, theirs = socket.socketpair()
    with mine, theirs:
        theirs.sendall(json.dumps(sent).encode() + b"\n")
        theirs.shutdown(socket.SHUT_WR)
        tests = proxies.Program(mine)
        try:
            tests.ask("call", [1])
        except (proxies.Garbled, proxies.ProgramGone):
            pass
        except Exception as error:
            if not hasattr(error, "from_program"):
                raise
