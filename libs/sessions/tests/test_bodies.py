"""Bodies of many values: refused before they are read."""

import json
from typing import Any

import pytest

from ratchet_sessions.doors import bodies
from ratchet_sessions.doors.openai_requests import ChatRequest, TextRequest

MANY = bodies.MAX_VALUES + 1


@pytest.mark.parametrize("text", ["a,b" * MANY, '",' * MANY, "\\" * 9 + '",' * MANY, ",\\" * MANY])
def test_texts_are_as_long_as_they_like(text: str) -> None:
    assert not bodies.has_more_values(json.dumps({"prompt": text, "more": [text, "\\"]}).encode(), MANY)


@pytest.mark.parametrize("value", ["1", '"a"', '"\\\\"', '"\\""', "{}", '{"a": "b"}', '","'])
def test_values_are_counted_to_the_limit(value: str) -> None:
    def of(count: int) -> bytes:
        return f"[{','.join([value] * count)}]".encode()

    assert not bodies.has_more_values(of(100), 100)
    assert bodies.has_more_values(of(101), 100)


FAULTY = [-1] * 200_000
MANY_KEYS = {f"x{number}": "y" for number in range(100_000)}


@pytest.mark.parametrize(
    ("shape", "body"),
    [
        (TextRequest, {"prompt": FAULTY}),
        (TextRequest, {"prompt": [FAULTY[:1000]] * 128}),
        (TextRequest, {"prompt": "a", "stop": FAULTY}),
        (TextRequest, {"prompt": "a", "logit_bias": MANY_KEYS}),
        (ChatRequest, {"messages": FAULTY}),
        (ChatRequest, {"messages": [{"role": "user", "content": FAULTY}]}),
        (ChatRequest, {"messages": [{"role": "assistant", "tool_calls": FAULTY}]}),
        (ChatRequest, {"messages": [{"role": "user", "content": "a"}], "tools": FAULTY}),
    ],
)
def test_of_many_faults_few_are_looked_for(shape: Any, body: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="model") as found:
        shape.model_validate(body)  # and no model
    assert found.value.error_count() < 10  # type: ignore[attr-defined]
