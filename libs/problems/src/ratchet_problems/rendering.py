"""A conversation as a model reads it, by its chat template: one place for training, evaluation and serving."""

from collections.abc import Mapping, Sequence
from typing import Any

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
