"""What users write as JSON is read, or refused in a sentence."""

import math

import pytest

from ratchet_kit import json_text
from ratchet_kit.json_text import NotJson

LONG = "9" * 5_000


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"\xef\xbb\xbf[1]\r\n", [1]),
        ("\ufeff{}", {}),
        ("[1e999, -Infinity]", [math.inf, -math.inf]),
        ('{"a": {"a": 1}, "b": [{"a": 2}]}', {"a": {"a": 1}, "b": [{"a": 2}]}),
        ('"\\ud800 \u2028"', "\ud800 \u2028"),
        (f"[{LONG}, -{LONG}, 7]", [10**5_000 - 1, 1 - 10**5_000, 7]),
    ],
)
def test_what_is_read(text: str | bytes, value: object) -> None:
    assert json_text.read(text) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not JSON at column 1: Expecting value"),
        ("[1,\n,", "is not JSON at line 2, column 1"),
        ("[1]\x00", "is not JSON at column 4: Extra data"),
        ('"a\x00"', "is not JSON at column 3: Invalid control character"),
        (b"[1, \xe9]", "is not UTF-8 at byte 4"),
        ("[" * 100_000, "is nested too deeply"),
        ('[{"b": 1, "a": 2, "a": 3}]', "has 'a' twice in one object"),
        ("9" * 100_001, "has a whole number of 100001 digits; at most 100000 are allowed"),
    ],
)
def test_what_is_refused(text: str | bytes, reason: str) -> None:
    with pytest.raises(NotJson) as refused:
        json_text.read(text)
    assert str(refused.value).startswith(reason)


def test_a_door_takes_less() -> None:
    with pytest.raises(NotJson, match="of 5000 digits; at most 4000 are allowed"):
        json_text.read(f'{{"a": {LONG}}}', most_digits=4_000)
    for constant in ("NaN", "Infinity", "-Infinity"):
        with pytest.raises(NotJson, match=f"{constant} is not a JSON number"):
            json_text.read(f"[{constant}]", constants=False)


def test_a_name_is_found_among_many() -> None:
    names = ", ".join(f'"{number}": 0' for number in range(100_000))
    with pytest.raises(NotJson, match="has 'x' twice"):
        json_text.read(f'{{"x": 1, {names}, "x": 2}}')
