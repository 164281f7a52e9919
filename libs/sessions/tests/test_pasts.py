"""A call as a program sends it back: read, and written again."""

import pytest

from ratchet_problems import Message, ToolCall
from ratchet_sessions import pasts


def calling(arguments: str) -> Message:
    return Message("assistant", "", (ToolCall("run", arguments, "c1"),))


def is_same(written: str, sent_back: str) -> bool:
    root = pasts.Node()
    pasts.add([root], [calling(written)], (), 0)
    return len(pasts.walk(root, [calling(sent_back)])) == 2


@pytest.mark.parametrize(
    ("written", "sent_back"),
    [
        ('{"b":1, "a": "é"}', '{ "a": "\\u00e9",\n"b": 1 }'),
        ('{"a": 1.0, "b": [1e3]}', '{"a":1,"b":[1000]}'),
        ('{"a": 12345678901234567890}', '{"a":12345678901234567000}'),
        ("", "{}"),
        ("[1]", "{}"),
        ('{"a": 1, "b": "x', '{"a": 1}'),
        ('{"a":', "{}"),
        ("{" * 9_000, "{}"),
    ],
)
def test_arguments_that_a_client_writes_again_are_the_same(written: str, sent_back: str) -> None:
    """JavaScript has one kind of number. Anthropic's door gives an empty object for what is none, and its clients give
    what there is of one that was cut off."""
    assert is_same(written, sent_back)


@pytest.mark.parametrize(
    ("written", "sent_back"),
    [('{"a": 1}', '{"a": 2}'), ('{"a": 1}', '{"a": "1"}'), ('{"a": 1}', '{"a": true}'), ('{"a": 1}', "{}")],
)
def test_others_are_not(written: str, sent_back: str) -> None:
    assert not is_same(written, sent_back)
