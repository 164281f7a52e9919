"""Filling a gap between two texts (fill-in-the-middle, https://arxiv.org/abs/2207.14255), as a model was trained to.

Each family of models has special tokens of its own for it, and the tokenizer says which they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SENTINEL = "☺"


@dataclass(frozen=True, slots=True)
class Form:
    """The text before the gap and the one after it, each behind its token; behind the third one the model writes."""

    prefix: str
    suffix: str
    middle: str
    ends: tuple[str, ...]
    """Tokens that end what is filled in, beside the model's own end."""
    spaced: bool = False
    """The tokenizer begins each text with a space, which a text after a gap does not have."""

    @property
    def marks(self) -> tuple[str, str, str]:
        return self.prefix, self.suffix, self.middle


FORMS = (
    # Qwen2.5-Coder, Qwen3-Coder, CodeGemma, newer Granites
    Form(
        *("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
        ends=("<|endoftext|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<|file_separator|>"),
    ),
    # StarCoder, StarCoder2, Granite Code
    Form("<fim_prefix>", "<fim_suffix>", "<fim_middle>", ends=("<|endoftext|>", "<fim_pad>", "<file_sep>")),
    Form("<fim-prefix>", "<fim-suffix>", "<fim-middle>", ends=("<|endoftext|>", "<fim-pad>")),  # SantaCoder
    Form("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", ends=("<|EOT|>",)),  # DeepSeek-Coder, V2 and V3
    Form("▁<PRE>", "▁<SUF>", "▁<MID>", ends=("▁<EOT>",), spaced=True),  # CodeLlama
)
NO_FORM = (
    "this model fills no gaps: its tokenizer has no special tokens for it, such as <|fim_prefix|>; send the prompt"
    " without a suffix"
)


class Infill:
    """Fills gaps for one tokenizer."""

    def __init__(self, tokenizer: Any, form: Form, vocabulary: Mapping[str, int]) -> None:
        self._tokenizer = tokenizer
        self._form = form
        self._marks = [vocabulary[mark] for mark in form.marks]
        self.end_ids = [*self._marks, *(vocabulary[end] for end in form.ends if end in vocabulary)]
        """Tokens at which an answer ends."""

    def tokens(self, prefix: str, suffix: str) -> list[int]:
        """Raises ValueError for a text that has the model's own tokens for it."""
        before, after = self._plain(prefix), self._after_gap(suffix)
        taken = {*before, *after} & {*self._marks}
        if taken:
            marks = [mark for mark, token in zip(self._form.marks, self._marks, strict=True) if token in taken]
            raise ValueError(f"the texts must not hold {marks[0]}, by which this model knows where the gap is")
        begin, between, middle = self._marks
        return [*self._begin(), begin, *before, between, *after, middle]

    def _begin(self) -> list[int]:
        """The token of the begin of every text, for tokenizers that put one there."""
        return [token for token in self._tokenizer.encode("") if token == self._tokenizer.bos_token_id]

    def _plain(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def _after_gap(self, text: str) -> list[int]:
        if not self._form.spaced:
            return self._plain(text)
        return self._plain(_SENTINEL + text)[len(self._plain(_SENTINEL)) :]


def infill_of(tokenizer: Any) -> Infill | None:
    """None for a model that fills no gaps."""
    vocabulary: Mapping[str, int] = tokenizer.get_vocab()
    form = next((form for form in FORMS if all(mark in vocabulary for mark in form.marks)), None)
    return None if form is None else Infill(tokenizer, form, vocabulary)
