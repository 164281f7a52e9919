"""How an answer ends: what a worked example has after its answer, so that whoever learns it stops where it is served.

An engine stops at the tokens that the model's own files name. Which of them ends an answer of a chat, its template
alone says: Gemma's and Phi's end a turn with another token than their tokenizer's `eos_token`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ratchet_kit.errors import InvalidArgument
from ratchet_problems import Message, rendering
from ratchet_problems.messages import records
from ratchet_problems.prompting import Form

_QUESTION, _ANSWER = Message("user", "question"), Message("assistant", "answer")


@dataclass(frozen=True, slots=True)
class Ending:
    """Of the answers of a run."""

    tokens: Sequence[int]
    """What an example has after its answer: of a chat, what the template writes there, up to the token that ends the
    turn; then, where an engine stops at none of these, the one that it stops at."""
    written: Sequence[int] = ()
    """Those of them that the template writes."""


def vocabulary(config: Mapping[str, Any]) -> int:
    """How many tokens a model knows, by its config; 0: not said."""
    of_text = config.get("text_config")
    said = config.get("vocab_size") or (of_text.get("vocab_size") if isinstance(of_text, dict) else None)
    return said if isinstance(said, int) else 0


def ending(tokenizer: Any, stops: Sequence[int], form: Form) -> Ending:
    """`stops`: of `model_config.stops_of`. Raises InvalidArgument where nothing ends an answer."""
    own = tokenizer.eos_token_id
    known = [*([] if own is None else [own]), *stops]
    if not known:
        raise InvalidArgument("nothing ends an answer of the base: neither its tokenizer nor its config names an eos")
    if form == "completion":
        return Ending(known[:1])
    with refusals([_QUESTION]):
        after = rendering.written_after(tokenizer, records([_QUESTION]), records([_ANSWER])[0], ())
    tokens = rendering.tokens(tokenizer, after)
    if (stop := _first(tokens, known)) is not None:
        return Ending(tokens[: stop + 1], tokens[: stop + 1])
    mark = _first(tokens, {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder})
    written = [] if mark is None else tokens[: mark + 1]
    return Ending([*written, known[0]], written)


def rendered(tokenizer: Any, messages: Sequence[Message], *, answering: bool) -> str:
    """As `rendering.rendered`. Raises InvalidArgument for a conversation that the template refuses."""
    with refusals(messages):
        return rendering.rendered(tokenizer, records(messages), answering=answering)


@contextmanager
def refusals(messages: Sequence[Message]) -> Iterator[None]:
    """Raises InvalidArgument for whatever the template raises of the messages."""
    try:
        yield
    except InvalidArgument:
        raise
    except Exception as error:  # a template is a program of its author's, and may raise anything
        roles = ", ".join(message.role for message in messages)
        raise InvalidArgument(f"the base's chat template refuses a conversation of {roles}: {error}") from error


def _first(tokens: Sequence[int], wanted: Collection[int]) -> int | None:
    return next((place for place, token in enumerate(tokens) if token in wanted), None)
