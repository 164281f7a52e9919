"""The answers that the doors write, whoever made them."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from pydantic import BaseModel

from ratchet_policies import Delta, Generation


class Answer(Protocol):
    """All completions of a prompt."""

    @property
    def id(self) -> str: ...
    @property
    def version(self) -> object:
        """Shown as the model, by `str`."""
        ...

    @property
    def generation(self) -> Generation: ...
    @property
    def completion_tokens(self) -> int: ...


class AnswerPiece(Protocol):
    """A piece of a streamed answer."""

    @property
    def id(self) -> str: ...
    @property
    def version(self) -> object: ...
    @property
    def delta(self) -> Delta: ...


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the answer to one of several prompts."""

    prompt: int
    piece: AnswerPiece


class Writer(Protocol):
    """Writes the answers to one request as its API has them."""

    def whole(self, replies: Sequence[Answer]) -> BaseModel: ...

    def events(self, first: Piece, rest: AsyncGenerator[Piece]) -> AsyncGenerator[str]:
        """Server-sent events. A fault after the first piece is an event too, and the last."""
        ...


def seconds(time: datetime) -> int:
    """As OpenAI writes times."""
    return int(time.timestamp())
