"""Bodies that are refused before they are read, at each door."""

import json
from typing import Any

import pytest

from ratchet_sessions.doors import bodies

MANY = bodies.MAX_VALUES + 1


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/generate", "/api/v1/runs"])
async def test_too_many_values_are_413_everywhere(http, path: str) -> None:
    reply = await http.post(path, content=b'{"model": "starter", "prompt": [' + b"1," * MANY + b"1]}")
    assert reply.status_code == 413
    assert str(bodies.MAX_VALUES) in reply.json()["error"]["message"]


async def test_nothing_of_it_is_read(http, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: Any, **__: Any) -> None:
        raise AssertionError("the body was read")

    monkeypatch.setattr(bodies.json_text, "read", read)
    for body in (b"1," * 4_000_000, b'"a",' * 3_000_000, b'{"a":1},' * MANY):
        assert (await http.post("/v1/completions", content=b'{"prompt": [' + body + b"1]}")).status_code == 413


async def test_json_is_utf_8(http) -> None:
    """In UTF-16 nothing above would count what there is."""
    body = json.dumps({"model": "starter", "prompt": "say hi"})
    assert (await http.post("/v1/completions", content=body.encode("utf-16"))).status_code == 400
    assert (await http.post("/v1/completions", content=body.encode("utf-8-sig"))).status_code == 200


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/generate", "/api/v1/evaluations"])
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("9" * 5_000, "has a whole number of 5000 digits; at most 4000 are allowed"),
        ("[" * 50_000, "nested too deeply"),
        ("NaN", "NaN is not a JSON number"),
        ("-Infinity", "-Infinity is not a JSON number"),
        ('1, "x": 2', "has 'x' twice"),
        ('"a\x00"', "is not JSON at column"),
        ("'a'", "is not JSON at column"),
        ('"\xe9"', "is not UTF-8 at byte"),
    ],
)
async def test_what_is_no_json_is_400_everywhere(http, path: str, value: str, reason: str) -> None:
    reply = await http.post(path, content=f'{{"x": {value}}}'.encode("latin-1"))
    assert reply.status_code == 400
    assert reason in reply.json()["error"]["message"]
    assert "sys." not in reply.text
