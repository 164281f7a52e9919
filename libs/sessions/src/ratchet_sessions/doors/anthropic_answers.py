"""Answers of Anthropic's Messages API (https://docs.anthropic.com/en/api/messages-streaming): whole, and as events."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Literal

from pydantic import BaseModel, Field
from pydantic_core import from_json

from ratchet_kit.errors import RatchetError
from ratchet_policies import FinishReason
from ratchet_sessions.doors import sse
from ratchet_sessions.doors.answers import Answer, Piece
from ratchet_sessions.doors.blocks import Block, Blocks, Change, Closed, Grown, Opened, blocks_of
from ratchet_sessions.doors.errors import anthropic_error_body


class Text(BaseModel):
    type: Literal["text"] = "text"
    text: str


class Thinking(BaseModel):
    type: Literal["thinking"] = "thinking"
    thinking: str
    signature: Literal[""] = Field(default="", description="Nobody has to sign them: they are left out when sent back.")


class ToolUse(BaseModel):
    type: Literal["tool_use"] = "tool_use"
    id: str
    name: str
    input: dict[str, Any]


class Usage(BaseModel):
    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: Literal[0] = 0
    cache_read_input_tokens: Literal[0] = 0


class MessageObject(BaseModel):
    id: str = Field(description="For feedback.")
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    model: str = Field(description='The version that answered, "starter@2".')
    content: list[Text | Thinking | ToolUse]
    stop_reason: Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"] | None
    stop_sequence: str | None
    usage: Usage


class TokenCount(BaseModel):
    input_tokens: int


class Writer:
    def __init__(self) -> None:
        self._blocks = Blocks()
        self._prompt_tokens = 0
        self._completion_tokens = 0

    def whole(self, replies: Sequence[Answer]) -> MessageObject:
        (reply,) = replies
        blocks = blocks_of(reply.generation.completions[0])
        return MessageObject(
            id=reply.id,
            model=str(reply.version),
            content=[_content(block) for block in blocks.made],
            usage=Usage(input_tokens=reply.generation.prompt_tokens, output_tokens=reply.completion_tokens),
            **_end(blocks),
        )

    async def events(self, first: Piece, rest: AsyncGenerator[Piece]) -> AsyncGenerator[str]:
        async with aclosing(rest):
            try:
                yield _event("message_start", message=self._start(first))
                yield self._changes(first)
                async for piece in rest:
                    if text := self._changes(piece):
                        yield text
            except RatchetError as error:
                yield sse.event(anthropic_error_body(error), "error")
                return
        usage = {"input_tokens": self._prompt_tokens, "output_tokens": self._completion_tokens}
        yield _event("message_delta", delta=_end(self._blocks), usage=usage)
        yield _event("message_stop")

    def _start(self, first: Piece) -> dict[str, Any]:
        usage = Usage(input_tokens=first.piece.delta.prompt_tokens, output_tokens=0)
        return MessageObject(
            id=first.piece.id,
            model=str(first.piece.version),
            content=[],
            stop_reason=None,
            stop_sequence=None,
            usage=usage,
        ).model_dump()

    def _changes(self, piece: Piece) -> str:
        delta = piece.piece.delta
        self._prompt_tokens += delta.prompt_tokens
        self._completion_tokens += len(delta.completion.token_ids)
        return "".join(_change(change) for change in self._blocks.add(delta.completion))


def _change(change: Change) -> str:
    index = change.block.index
    match change:
        case Opened(block):
            empty = _content(Block(index, block.call_id, block.name, block.is_reasoning))
            return _event("content_block_start", index=index, content_block=empty.model_dump())
        case Grown(block, text):
            return _event("content_block_delta", index=index, delta=_delta(block, text))
        case Closed():
            return _event("content_block_stop", index=index)


def _delta(block: Block, text: str) -> dict[str, Any]:
    if block.is_call:
        return {"type": "input_json_delta", "partial_json": text}
    return {"type": "thinking_delta", "thinking": text} if block.is_reasoning else {"type": "text_delta", "text": text}


def _event(kind: str, /, **data: Any) -> str:
    return sse.event({"type": kind} | data, kind)


def _end(blocks: Blocks) -> dict[str, Any]:
    calls = any(block.is_call for block in blocks.made)
    if blocks.finish_reason is FinishReason.LENGTH:
        return {"stop_reason": "max_tokens", "stop_sequence": None}
    if blocks.stop:
        return {"stop_reason": "stop_sequence", "stop_sequence": blocks.stop}
    return {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}


def _content(block: Block) -> Text | Thinking | ToolUse:
    if block.is_reasoning:
        return Thinking(thinking=block.text)
    if not block.is_call:
        return Text(text=block.text)
    return ToolUse(id=block.call_id, name=block.name, input=_arguments(block.text))


def _arguments(text: str) -> dict[str, Any]:
    """As far as they were written, where max_tokens cut them off: so Anthropic's clients read those of a stream. Empty
    for what is no object, and for one that cannot be written: a model may nest without end, or halve a character."""
    try:
        value = from_json(text, allow_partial=True)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
