"""An answer as a row of blocks, each a text, thoughts or a call of a tool: the shape that Anthropic's API and OpenAI's
Responses share, made of the pieces of a completion as they come."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ratchet_policies import Completion, FinishReason
from ratchet_problems import ToolCall


@dataclass(slots=True)  # its text grows with each piece
class Block:
    index: int
    call_id: str = ""
    """Empty for a text."""
    name: str = ""
    """The name of the tool that is called; empty for a text."""
    is_reasoning: bool = False
    text: str = ""
    """The text so far, or the arguments of the call."""

    @property
    def is_call(self) -> bool:
        return bool(self.call_id)


@dataclass(frozen=True, slots=True)
class Opened:
    block: Block


@dataclass(frozen=True, slots=True)
class Grown:
    block: Block
    text: str
    """New at its end."""


@dataclass(frozen=True, slots=True)
class Closed:
    block: Block


Change: TypeAlias = Opened | Grown | Closed


class Blocks:
    """One block is open at a time. A call opens with the first of its arguments: a parser may name several calls before
    it has the arguments of any."""

    def __init__(self) -> None:
        self.made: list[Block] = []
        self.finish_reason = FinishReason.UNFINISHED
        self.stop = ""
        """The stop string that ended the answer, if one did."""
        self._open: Block | None = None
        self._calls: dict[int, Block] = {}
        self._named: dict[int, ToolCall] = {}

    def add(self, piece: Completion) -> Iterator[Change]:
        """The changes that a piece makes, the last of which closes the last block where the piece ends the answer."""
        if piece.reasoning:
            yield from self._add_text(piece.reasoning, is_reasoning=True)
        if piece.text:
            yield from self._add_text(piece.text)
        for call in piece.tool_calls:
            yield from self._add_call(call)
        if piece.finish_reason is not FinishReason.UNFINISHED:
            self.finish_reason, self.stop = piece.finish_reason, piece.stop
            for index in sorted(self._named):
                yield from self._open_call(index)  # without arguments
            yield from self._close()

    def _add_text(self, text: str, *, is_reasoning: bool = False) -> Iterator[Change]:
        if self._open is None or self._open.is_call or self._open.is_reasoning != is_reasoning:
            yield from self._begin(Block(len(self.made), is_reasoning=is_reasoning))
        assert self._open is not None, "it was opened"
        yield self._grow(self._open, text)

    def _add_call(self, piece: ToolCall) -> Iterator[Change]:
        if piece.index not in self._calls:
            known = self._named.get(piece.index, ToolCall("", index=piece.index))
            self._named[piece.index] = ToolCall(known.name + piece.name, "", known.id or piece.id, piece.index)
            if not piece.arguments:
                return
            yield from self._open_call(piece.index)
        if piece.arguments:
            yield self._grow(self._calls[piece.index], piece.arguments)

    def _open_call(self, index: int) -> Iterator[Change]:
        named = self._named.pop(index)
        block = Block(len(self.made), named.id or f"call_{index}", named.name)
        self._calls[index] = block
        yield from self._begin(block)

    def _begin(self, block: Block) -> Iterator[Change]:
        yield from self._close()
        self.made.append(block)
        self._open = block
        yield Opened(block)

    def _close(self) -> Iterator[Change]:
        if self._open is not None:
            yield Closed(self._open)
            self._open = None

    def _grow(self, block: Block, text: str) -> Grown:
        block.text += text
        return Grown(block, text)


def blocks_of(completion: Completion) -> Blocks:
    """Reads a whole answer."""
    blocks = Blocks()
    for _ in blocks.add(completion):
        pass
    return blocks
