"""Prompts as tokens: by a model's tokenizer, its chat template and its tokens for gaps.

Runs only in the engine process.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ratchet_kit import model_config
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.logs import get_logger
from ratchet_policies import Begun, ChatPrompt, Sampling, TextPrompt, TokenPrompt, no_room, over_length
from ratchet_problems import rendering
from rollout_service.adapters.engines import chats, infill, wire
from rollout_service.adapters.engines.refusals import RequestRefused
from rollout_service.adapters.engines.time_limit import time_limit

log = get_logger(__name__)

_TEMPLATE_SECONDS = 3.0
"""Processor time; nobody else is answered meanwhile."""


class Prompts:
    """Reads the prompts of one model."""

    def __init__(self, model: Path, tokenizer: Any, vocabulary: int, max_model_len: int) -> None:
        """`vocabulary`: how many tokens the model knows, which may be more than the tokenizer has."""
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._max_model_len = max_model_len
        self.has_chat_template = bool(getattr(tokenizer, "chat_template", None))
        self._longest_token = max(map(len, tokenizer.get_vocab()), default=1)
        """In characters of the vocabulary's own writing, which are never fewer than those of the text."""
        self.stops = {*model_config.stops_of(model), tokenizer.eos_token_id} - {None}
        """The tokens that end an answer."""
        self._infill = infill.infill_of(tokenizer)

    def tokens(self, call: wire.Generate) -> list[int]:
        """Raises RequestRefused."""
        match wire.prompt_of(call):
            case TokenPrompt(given):
                field, ids = "prompt.tokens.ids", list(given)
                self._require_known(field, ids)
            case TextPrompt(text, suffix):
                field = "prompt.text"
                self._require_length(field, text + suffix)
                ids = self._infilled(text, suffix) if suffix else self._tokenizer.encode(text)
            case ChatPrompt() as chat:
                field, ids = "prompt.chat", self._render(chat)
        if not ids:
            raise RequestRefused(field, "the prompt has no tokens")
        if len(ids) >= self._max_model_len:
            raise RequestRefused(field, over_length(len(ids), self._max_model_len))
        return ids

    def opening(self, call: wire.Generate) -> list[int]:
        """Tokens between the last message of a chat, which was taken, and the answer; none where its template does not
        say, which is logged."""
        chat = wire.prompt_of(call)
        assert isinstance(chat, ChatPrompt), "other prompts have no messages"
        try:
            with time_limit(_TEMPLATE_SECONDS):
                return rendering.opening(self._tokenizer, chats.conversation(chat.messages), **_options(chat))
        except Exception as error:  # noqa: BLE001 - a template may refuse another text than the one that it was given
            log.warning("chat.opening_unknown", reason=str(error))
            return []

    def most_tokens(self, sampling: Sampling, prompt_tokens: int) -> int:
        """The most tokens of a completion. Raises RequestRefused, also for tokens that the model does not know."""
        for field, tokens in (("stop_token_ids", sampling.stop_token_ids), ("logit_bias", sampling.logit_bias)):
            self._require_known(f"sampling.{field}", tokens)
        room = self._max_model_len - prompt_tokens
        wanted = room if sampling.max_tokens is None else sampling.max_tokens
        if sampling.must_fit and wanted > room:
            raise RequestRefused("sampling.max_tokens", no_room(prompt_tokens, wanted, self._max_model_len))
        return min(wanted, room)

    def _infilled(self, prefix: str, suffix: str) -> list[int]:
        if self._infill is None:
            raise RequestRefused("prompt.suffix", infill.NO_FORM)
        try:
            return self._infill.tokens(prefix, suffix)
        except ValueError as error:
            raise RequestRefused("prompt.suffix", str(error)) from error

    def ended(self, call: wire.Generate) -> Sampling:
        """The sampling of a call, which ends where a gap is filled, too."""
        if not call.suffix or self._infill is None:
            return call.sampling
        return replace(call.sampling, stop_token_ids=(*call.sampling.stop_token_ids, *self._infill.end_ids))

    def _require_length(self, field: str, text: str) -> None:
        """Refuses what is too long however its tokens fall: to count them takes seconds a megabyte, and nobody else
        is answered meanwhile."""
        least = math.ceil(len(text) / self._longest_token)
        if least >= self._max_model_len:
            raise RequestRefused(field, over_length(least, self._max_model_len, at_least=True))

    def _require_known(self, field: str, ids: Iterable[int]) -> None:
        unknown = [token for token in ids if not 0 <= token < self._vocabulary]
        if unknown:
            raise RequestRefused(field, self._unknown(unknown[0]))

    def _unknown(self, token: int) -> str:
        return f"token {token} is not in the model's vocabulary of {self._vocabulary}"

    def _render(self, chat: ChatPrompt) -> list[int]:
        if not (chat.chat_template or self.has_chat_template):
            raise RequestRefused("prompt.chat", "the model has no chat template: send text or tokens")
        conversation = chats.conversation(chat.messages)
        options = _options(chat)
        try:
            with time_limit(_TEMPLATE_SECONDS):
                if chat.begun is not None:
                    return self._go_on(chat.begun, conversation, **options)
                text = rendering.rendered(self._tokenizer, conversation, **options)
        except RequestRefused:
            raise
        except Exception as error:  # a template is a program of the model's author and may raise anything
            reason = str(error) or type(error).__name__
            raise RequestRefused("prompt.chat.messages", f"the chat template refuses them: {reason}") from error
        self._require_length("prompt.chat", text)
        return rendering.tokens(self._tokenizer, text)

    def _go_on(self, begun: Begun, conversation: rendering.Conversation, **options: Any) -> list[int]:
        self._require_known("prompt.chat.begun.token_ids", begun.ids)
        # Long texts are refused before their tokens are counted, as `_require_length` does.
        self._require_length("prompt.chat", "".join(str(one["content"]) for one in conversation[begun.messages :]))
        try:
            new = rendering.following(self._tokenizer, conversation, begun.messages, begun.ids, self.stops, **options)
        except InvalidArgument as error:
            raise RequestRefused("prompt.chat.begun", error.message) from error
        return [*begun.ids, *new]


def _options(chat: ChatPrompt) -> dict[str, Any]:
    return {"tools": chats.offered(chat.tools) if chat.tools else None, "chat_template": chat.chat_template or None}
