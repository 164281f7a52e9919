import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_service.cage.wire import codec

hashable = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.binary()
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False),
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
    ),
    max_leaves=20,
)


@given(values)
def test_what_goes_in_comes_out(value: object) -> None:
    back = codec.loads(codec.dumps(value))
    assert back == value
    assert repr(back) == repr(value) or isinstance(value, set | frozenset | dict | list | tuple)


def test_nan_survives() -> None:
    assert math.isnan(codec.loads(codec.dumps(float("nan"))))  # type: ignore[arg-type]


def test_too_deep_and_cyclic_values_become_opaque() -> None:
    cyclic: list = []
    cyclic.append(cyclic)
    deep: object = 1
    for _ in range(10_000):
        deep = [deep]
    for value in (cyclic, deep, object(), len, range(3), iter([])):
        codec.loads(codec.dumps(value))


def test_lists_and_dicts_that_programs_made_hashable_are_members_and_keys() -> None:
    back: Any = codec.loads('{"s": [[1, [2]], {"d": [["a", {"s": [1]}]]}, {"t": [[3]]}]}')
    assert sorted(map(str, back)) == ["([3],)", "[1, [2]]", "{'a': {1}}"]
    assert [1, [2]] in [*back]
    assert {"a": {1}} in [*back]
    assert codec.loads('{"d": [[[1], 2]]}') == codec.loads('{"d": [[[1], 2]]}')
    assert list(codec.loads('{"d": [[[1], 2]]}').items()) == [([1], 2)]  # type: ignore[attr-defined]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("tdisfbcox"), inner, max_size=2),
    max_leaves=20,
)


@given(json_values)
def test_any_json_is_read_or_refused(data: object) -> None:
    try:
        codec.loads(json.dumps(data))
    except codec.Malformed:
        pass


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "[" * 100_000,
        '{"i":"zz"}',
        '{"i":5}',
        '{"z":1}',
        "{}",
        '{"t":1}',
        '{"t":"ab"}',
        '{"o":[1,2]}',
        '{"b":"x"}',
        '{"c":[1]}',
        '{"c":["a","b"]}',
        '{"t":[],"s":[]}',
        "9" * 10_000,
        '{"d":[1]}',
        "[" * 500 + "]" * 500,
    ],
)
def test_malformed(text: str) -> None:
    with pytest.raises(codec.Malformed):
        codec.loads(text)
