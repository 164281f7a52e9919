import random
from collections.abc import Sequence
from typing import Any

import pytest

from ratchet_kit.errors import InvalidArgument
from ratchet_problems import rendering
from ratchet_testing.chats import FORMS, ByteTokenizer

TEXTS = (
    "hello",
    "日本語",
    "👩‍💻 x",
    "a\n\nb",
    "<|im_end|>",
    "</s><|user|>",
    '{"a": 1}}',
    "```\nimport os\n```",
    "[/INST]",
)


def said(chance: random.Random) -> str:
    return " ".join(chance.choices(TEXTS, k=chance.randint(1, 4)))


def exchange(chance: random.Random, calls: bool, single: bool) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """An answer, and the messages that a program puts after it."""
    if not calls:
        return {"role": "assistant", "content": said(chance)}, [{"role": "user", "content": said(chance)}]
    ids = [f"call{place:05}" for place in range(1 if single else chance.randint(1, 3))]
    function = {"name": "run", "arguments": {"code": said(chance), "times": 2}}
    answer = {"role": "assistant", "content": chance.choice(["", said(chance)])}
    answer["tool_calls"] = [{"id": id, "type": "function", "function": function} for id in ids]
    return answer, [{"role": "tool", "tool_call_id": id, "content": said(chance)} for id in ids]


def ends_with(ids: Sequence[int], end: Sequence[int]) -> bool:
    return list(ids[len(ids) - len(end) :]) == list(end)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("calls", [False, True], ids=["text", "calls"])
def test_the_tokens_after_an_answer_are_those_of_the_template(name: str, calls: bool) -> None:
    form, chance = FORMS[name], random.Random(name)
    if calls and not form.takes_calls:
        pytest.skip("this form has no calls")
    tokenizer = ByteTokenizer(form)
    stop = tokenizer.encode(form.of_calls if calls else form.stops[0])
    for _ in range(25):
        asked = [{"role": "user", "content": said(chance)}]
        answer, new = exchange(chance, calls, single=name == "llama3")
        chat = [*asked, answer, *new]
        whole = rendering.tokens(tokenizer, rendering.rendered(tokenizer, chat))
        cut = rendering.following(tokenizer, chat, 2, [1, 2], tokenizer.stops)
        ended = rendering.following(tokenizer, chat, 2, [1, *(stop or [tokenizer.eos_token_id])], tokenizer.stops)
        assert ends_with(whole, cut)
        assert ends_with(whole, ended)
        if name != "gpt-oss" or calls:  # its earlier answers end with another token than the last one
            assert whole[-len(ended) - 1] in tokenizer.stops
            assert len(ended) < len(cut)
        before = tokenizer.decode(whole[: -len(ended)])
        assert not calls or before.count("times") == len(answer["tool_calls"])
        assert calls or answer["content"] in before


def test_an_answer_that_ends_at_another_stop_gets_the_end_of_the_template() -> None:
    tokenizer = ByteTokenizer(FORMS["qwen2.5"])
    chat = [{"role": role, "content": role} for role in ("user", "assistant", "user")]
    (other,) = tokenizer.encode("<|endoftext|>")
    (end,) = tokenizer.encode("<|im_end|>")
    after = "\n<|im_start|>user\nuser<|im_end|>\n<|im_start|>assistant\n"
    for sampled, text in (([1, other], "<|im_end|>" + after), ([1, end], after), ([1, end, other], after)):
        found = rendering.following(tokenizer, chat, 2, sampled, tokenizer.stops)
        assert tokenizer.decode(found) == text


def test_what_a_program_says_cannot_be_taken_for_the_end_of_an_answer() -> None:
    tokenizer = ByteTokenizer(FORMS["glm"])
    tokenizer.chat_template = "{% for m in messages %}{{ m.content ~ '\n' }}{% endfor %}"  # it ends no turn
    chat = [{"role": role, "content": role} for role in ("user", "assistant", "user")]
    chat[2]["content"] = "no <|endoftext|> yes"
    found = rendering.following(tokenizer, chat, 2, [1, tokenizer.eos_token_id], tokenizer.stops)
    assert tokenizer.decode(found) == "\nno <|endoftext|> yes\n"


@pytest.mark.parametrize(("name", "calls"), [("starter", True), ("loses", False)])
def test_a_template_that_loses_the_answer_is_said(name: str, calls: bool) -> None:
    tokenizer = ByteTokenizer(FORMS["starter"])
    if name == "loses":
        tokenizer.chat_template = "{{ messages[-1].content }}"
    answer, new = exchange(random.Random(1), calls, single=True)
    answer["content"] = "" if calls else "hello"
    with pytest.raises(InvalidArgument, match="writes an answer not as it is"):
        rendering.following(tokenizer, [{"role": "user", "content": "x"}, answer, *new], 2, [1], tokenizer.stops)


@pytest.mark.parametrize("name", FORMS)
def test_the_tokens_that_open_an_answer_are_those_after_any_message(name: str) -> None:
    tokenizer, chance = ByteTokenizer(FORMS[name]), random.Random(name)
    opened = set()
    for _ in range(10):
        chat = [{"role": "user", "content": said(chance)}]
        opening = rendering.opening(tokenizer, chat)
        assert ends_with(rendering.tokens(tokenizer, rendering.rendered(tokenizer, chat)), opening)
        opened.add(tuple(opening))
    (one,) = opened
    assert 0 < len(one) < 60
