"""Answers as OpenAI writes them, whole or in chunks."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from ratchet_kit.errors import RatchetError
from ratchet_policies import Echo
from ratchet_sessions.doors import openai_answers as answers
from ratchet_sessions.doors import sse
from ratchet_sessions.doors.answers import Answer, Piece
from ratchet_sessions.doors.errors import openai_error_body


class Writer:
    """Answers as OpenAI writes them, whole or in chunks."""

    def __init__(self, shape: answers.Shape, created: int, choices: int, with_usage: bool) -> None:
        """`choices`: of each prompt."""
        self._shape = shape
        self._created = created
        self._choices = choices
        self._with_usage = with_usage
        self._head: dict[str, Any] = {}
        self._echoes: dict[int, Echo | None] = {}  # by prompt
        self._sent: dict[int, int] = {}  # by choice: characters
        self._prompt_tokens = 0
        self._completion_tokens = 0

    def whole(self, replies: Sequence[Answer]) -> answers.ChatCompletion | answers.TextCompletion:
        return self._shape.whole(replies, self._created)

    async def events(self, first: Piece, rest: AsyncGenerator[Piece]) -> AsyncGenerator[str]:
        self._head = {
            "id": first.piece.id,
            "object": self._shape.chunk,
            "created": self._created,
            "model": str(first.piece.version),
            "system_fingerprint": first.piece.delta.policy_id,
        } | ({"usage": None} if self._with_usage else {})
        async with aclosing(rest):
            try:
                yield self._event(first)
                async for piece in rest:
                    if text := self._event(piece):
                        yield text
            except RatchetError as error:
                yield sse.event(openai_error_body(error))
                return
        if self._with_usage:
            usage = answers.Usage.of(self._prompt_tokens, self._completion_tokens)
            yield sse.event(self._head | {"choices": [], "usage": usage.model_dump()})
        yield sse.event("[DONE]")

    def _event(self, piece: Piece) -> str:
        """Empty for a piece of which nothing is to be seen: the begin of what may become a call of a tool."""
        delta = piece.piece.delta
        choice, index = delta.completion, piece.prompt * self._choices + delta.completion.index
        self._prompt_tokens += delta.prompt_tokens
        self._completion_tokens += len(choice.token_ids)
        opens = index not in self._sent
        if opens:
            choice = answers.echoing(choice, self._echoes.setdefault(piece.prompt, delta.echo))
        elif not (
            choice.text
            or choice.reasoning
            or choice.tool_calls
            or choice.candidates
            or answers.FINISH_REASONS[choice.finish_reason]
        ):
            return ""
        offset = self._sent.get(index, 0)
        self._sent[index] = offset + len(choice.text)
        return sse.event(self._head | {"choices": [self._shape.delta(choice, index, offset, opens)]})
