"""How an answer ends: what a worked example has after its answer, so that whoever learns it stops where it is served.

An engine stops at the tokens that the model's own files name. Which of them ends an answer of a chat, its template
alone says: Gemma's and Phi's end a turn with another token than their tokenizer's `eos_token`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratchet_kit import model_config
from ratchet_kit.errors import InvalidArgument
from ratchet_problems import Message, rendering
from ratchet_problems.messages import records
from ratchet_problems.prompting import Form

ANSWER = "ratchetanswer5d1f0c"
"""Stands for an answer where only what comes after it is asked for. Letters and digits: templates that change
punctuation leave it as it is."""
_QUESTION = Message("user", "ratchetquestion5d1f0c")


@dataclass(frozen=True, slots=True)
class Ending:
    """Of the answers of a run."""

    tokens: Sequence[int]
    """What an example has after its answer: of a chat, what the template writes there, up to the token that ends the
    turn; then, where an engine stops at none of these, the one that it stops at."""
    written: Sequence[int] = ()
    """Those of them that the template writes."""


def base_config(folder: Path) -> Mapping[str, Any]:
    """A model's config.json."""
    return _read(folder / "config.json") or {}


def vocabulary(config: Mapping[str, Any]) -> int:
    """How many tokens a model knows, by its config; 0: not said."""
    of_text = config.get("text_config")
    said = config.get("vocab_size") or (of_text.get("vocab_size") if isinstance(of_text, dict) else None)
    return said if isinstance(said, int) else 0


def stops_of(folder: Path) -> tuple[int, ...]:
    """The tokens at which an engine stops, by a model's files; its tokenizer may name one more."""
    return model_config.stops(base_config(folder), _read(folder / model_config.GENERATION))


def _read(file: Path) -> Mapping[str, Any] | None:
    return model_config.read(file.read_bytes()) if file.is_file() else None


def ending(tokenizer: Any, stops: Sequence[int], form: Form) -> Ending:
    """`stops`: of `stops_of`. Raises InvalidArgument where nothing ends an answer."""
    own = tokenizer.eos_token_id
    known = [*([] if own is None else [own]), *stops]
    if not known:
        raise InvalidArgument("nothing ends an answer of the base: neither its tokenizer nor its config names an eos")
    if form == "completion":
        return Ending(known[:1])
    after = written_after(tokenizer, [_QUESTION], [])
    tokens = rendering.tokens(tokenizer, after)
    if (stop := _first(tokens, known)) is not None:
        return Ending(tokens[: stop + 1], tokens[: stop + 1])
    mark = _first(tokens, {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder})
    written = [] if mark is None else tokens[: mark + 1]
    return Ending([*written, known[0]], written)


def written_after(tokenizer: Any, messages: Sequence[Message], replies: Sequence[Message]) -> str:
    """What the chat template writes after an answer to `messages`: with replies, up to where the next answer begins.
    Raises InvalidArgument where it does not write the answer, or more than once."""
    chat = [*messages, Message("assistant", ANSWER), *replies]
    written = rendered(tokenizer, chat, answering=bool(replies))
    before, _, after = written.partition(ANSWER)
    if ANSWER in after or len(before) == len(written):
        times = "more than once" if ANSWER in after else "not as it is"
        raise InvalidArgument(f"the base's chat template writes an answer {times}: what comes after it is not known")
    return after


def rendered(tokenizer: Any, messages: Sequence[Message], *, answering: bool) -> str:
    """As `rendering.rendered`. Raises InvalidArgument for a conversation that the template refuses."""
    try:
        return rendering.rendered(tokenizer, records(messages), answering=answering)
    except Exception as error:  # a template is a program of its author's, and may raise anything
        roles = ", ".join(message.role for message in messages)
        raise InvalidArgument(f"the base's chat template refuses a conversation of {roles}: {error}") from error


def _first(tokens: Sequence[int], wanted: Collection[int]) -> int | None:
    return next((place for place, token in enumerate(tokens) if token in wanted), None)
