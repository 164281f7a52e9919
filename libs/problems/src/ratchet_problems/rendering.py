"""A conversation as a model reads it, by its chat template: one place for training, evaluation and serving."""

import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ratchet_kit.errors import InvalidArgument

Conversation = Sequence[Mapping[str, Any]]
"""Messages as OpenAI's API has them."""


def rendered(tokenizer: Any, conversation: Conversation, *, answering: bool = True, **options: Any) -> str:
    """The text that the template of a Hugging Face tokenizer makes. `answering`: up to where the next answer begins.

    Raises whatever the template raises, a program of its author's: one with a system's message, say, or two of the user
    in a row.
    """
    return str(tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=answering, **options))


def tokens(tokenizer: Any, text: str) -> list[int]:
    """Tokens of a rendered text, which has its special ones in it."""
    return list(tokenizer.encode(text, add_special_tokens=False))


def opening(tokenizer: Any, conversation: Conversation, **options: Any) -> list[int]:
    """The tokens between the last message's text and the next answer: none is of what a program or a user wrote.

    Raises whatever the template raises. Where it does not write the text as it is, they are those of all of it.
    """
    word = _word()
    whole = rendered(tokenizer, [*conversation[:-1], _standing_in(conversation[-1], word)], **options)
    return tokens(tokenizer, whole.rpartition(word)[2])


def following(
    tokenizer: Any,
    conversation: Conversation,
    begun: int,
    sampled: Sequence[int],
    stops: Collection[int],
    **options: Any,
) -> list[int]:
    """The tokens between an answer as it was sampled and the next answer.

    conversation: its message `begun - 1` is that answer; the messages after it are new.
    sampled: the answer's tokens, which are kept as they are: the template never sees them. Only the last two are read.
    stops: the tokens at which the engine ends an answer.

    Where the answer did not end as the template ends one (cut off, or at another stop), the template's end comes first.
    Raises InvalidArgument where the template loses the answer's place, and whatever the template raises.
    """
    before, answer, new = conversation[: begun - 1], conversation[begun - 1], conversation[begun:]
    after = written_after(tokenizer, before, answer, new, **options)
    ids = tokens(tokenizer, after)
    calls = bool(answer.get("tool_calls"))
    gap = _gap(tokenizer, before, answer, new, **options)
    end = _end_of_turn(tokenizer, gap, stops, calls, **options)
    if end is None:
        if calls:
            raise InvalidArgument("the chat template writes nothing that ends an answer with calls of tools")
        return ids
    if ids[: end + 1] != gap[: end + 1]:
        raise InvalidArgument("the chat template ends an answer otherwise for other messages after it")
    written = gap[end] in sampled[-1:] or (gap[end] in sampled[-2:-1] and sampled[-1] in stops)
    if written:
        return ids[end + 1 :]
    return ids[end:] if calls else ids


def written_after(
    tokenizer: Any, before: Conversation, answer: Mapping[str, Any], new: Conversation, **options: Any
) -> str:
    """The text that the template writes after an answer: with new messages, up to where the next answer begins.

    Of an answer's calls of tools, the text after the last one's arguments. A random word stands for the answer: no text
    of a model's or a program's can be taken for its end. Raises InvalidArgument where the template does not write the
    answer, or more than once.
    """
    word = _word()
    whole = rendered(tokenizer, [*before, _standing_in(answer, word), *new], answering=bool(new), **options)
    parts = whole.split(word)
    if len(parts) == 1 or (len(parts) > 2 and not answer.get("tool_calls")):
        times = "more than once" if len(parts) > 1 else "not as it is"
        raise InvalidArgument(f"the chat template writes an answer {times}: what comes after it is not known")
    return parts[-1]


def _gap(
    tokenizer: Any, before: Conversation, answer: Mapping[str, Any], new: Conversation, **options: Any
) -> list[int]:
    """Tokens between an answer and the content of the message after it, whose own text may hold special tokens."""
    word = _word()
    neutral = [_standing_in(new[0], word), *new[1:]] if new else []
    text = written_after(tokenizer, before, answer, neutral, **options)
    return tokens(tokenizer, text.partition(word)[0])


def _end_of_turn(tokenizer: Any, gap: Sequence[int], stops: Collection[int], calls: bool, **options: Any) -> int | None:
    """The place in `gap` of the token that ends the answer. Where the engine stops at none that is there, it is the
    first special one after an answer without calls."""
    if (place := _first(gap, stops)) is not None:
        return place
    if not calls:
        return _first(gap, _special(tokenizer))
    question, said = {"role": "user", "content": _word()}, {"role": "assistant", "content": ""}
    plain = _gap(tokenizer, [question], said, [question], **options)
    end = _end_of_turn(tokenizer, plain, stops, False, **options)
    return None if end is None else _first(gap, [plain[end]])


def _standing_in(message: Mapping[str, Any], word: str) -> dict[str, Any]:
    """The message with the word for its text, and for the arguments of its calls. One with calls alone gets no text:
    templates then leave the calls out."""
    changed, calls = dict(message), message.get("tool_calls")
    if message.get("content") or not calls:
        changed["content"] = word
    if calls:
        changed["tool_calls"] = [
            dict(call) | {"function": dict(call["function"]) | {"arguments": {"argument": word}}} for call in calls
        ]
    return changed


def _special(tokenizer: Any) -> set[int]:
    return {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}


def _word() -> str:
    """Letters and digits: templates that change punctuation leave it as it is."""
    return f"ratchet{secrets.token_hex(8)}"


def _first(ids: Sequence[int], wanted: Collection[int]) -> int | None:
    return next((place for place, token in enumerate(ids) if token in wanted), None)
