"""The text of a completion, token by token."""

from collections.abc import Sequence
from typing import Any

_CONTEXT = 5
"""Tokens of the prompt before the first: some tokenizers write a token by the one before it."""


class Text:
    """Reads the new text of each token. What may begin a stop string is held back until that is known."""

    def __init__(self, tokenizer: Any, prompt: Sequence[int], stops: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._ids = list(prompt[-_CONTEXT:])
        self._from, self._to = 0, len(self._ids)
        """Tokens whose text is known, as far back as the next one's may depend on them."""
        self._stops = stops
        self._hold = max((len(stop) for stop in stops), default=1) - 1
        self._held = ""
        self.stop = ""
        """The stop string that ended it."""

    def add(self, token: int) -> str:
        """The text that is sure with this token; what follows a stop string, and itself, is left out."""
        self._ids.append(token)
        self._held += self._new()
        found = [(place, stop) for stop in self._stops if (place := self._held.find(stop)) >= 0]
        if found:
            place, self.stop = min(found)
            self._held = self._held[:place]
            return self.rest()
        sure = max(0, len(self._held) - self._hold)
        text, self._held = self._held[:sure], self._held[sure:]
        return text

    def rest(self) -> str:
        """The text that was held back."""
        text, self._held = self._held, ""
        return text

    def _new(self) -> str:
        """Empty while the last character is not whole."""
        before = self._decode(self._ids[self._from : self._to])
        now = self._decode(self._ids[self._from :])
        if len(now) <= len(before) or now.endswith("\ufffd"):
            return ""
        self._from, self._to = self._to, len(self._ids)
        return now[len(before) :]

    def _decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text
