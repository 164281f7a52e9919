"""Text of a completion that transformers makes, token by token."""

import pytest

from rollout_service.adapters.transformers.text import Text


class Bytes:
    """A tokenizer whose tokens are bytes; 0 is special."""

    def decode(self, ids: list[int], **options: bool) -> str:
        return bytes(id for id in ids if id).decode(errors="replace")


def made(text: str, *stops: str) -> tuple[list[str], str]:
    """The pieces with the rest, and the stop string."""
    one = Text(Bytes(), list("prompt é".encode()), stops)
    pieces = []
    for token in text.encode():
        pieces.append(one.add(token))
        if one.stop:
            break
    return [*pieces, one.rest()], one.stop


def test_a_character_comes_when_it_is_whole() -> None:
    assert made("aé日") == (["a", "", "é", "", "", "日", ""], "")


@pytest.mark.parametrize(
    ("stops", "text", "stop"),
    [(("ll",), "he", "ll"), (("nowhere",), "hello", ""), (("lo", "l"), "he", "l"), (("hello!",), "hello", "")],
)
def test_a_stop_string_is_left_out(stops: tuple[str, ...], text: str, stop: str) -> None:
    pieces, found = made("hello", *stops)
    assert ("".join(pieces), found) == (text, stop)


def test_what_may_begin_a_stop_string_is_held_back() -> None:
    assert made("abc", "cd")[0] == ["", "a", "b", "c"]
