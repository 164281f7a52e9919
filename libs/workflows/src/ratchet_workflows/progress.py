"""How whoever started a workflow learns what it does: the command draws it, the platform keeps its lines."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from ratchet.eval.v1 import eval_pb2

STAGE = "== "
"""The beginning of the line of a stage."""


class News(Protocol):
    """Work that is followed: one of this library's `...News`, or its Count."""

    def news(self) -> list[str]:
        """The changes since the last call, a line each."""
        ...


class Progress(Protocol):
    """Every method returns at once. What a method raises ends the workflow, which can be started again."""

    def stage(self, title: str) -> None:
        """A stage begins."""
        ...

    def say(self, line: str) -> None:
        """Something has happened."""
        ...

    def measured(self, evaluation: eval_pb2.Evaluation) -> None:
        """An evaluation has succeeded."""
        ...

    def following(self, work: News, goes_on: str = "") -> AbstractContextManager[Callable[[], None]]:
        """Entered around what may take hours; gives the function that is called after each change of `work`.

        `goes_on`: the sentence for a user who interrupts it or loses sight of it.
        """
        ...


class Lines:
    """All of it as lines of text. `say` gets each."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say

    def stage(self, title: str) -> None:
        self.say(f"{STAGE}{title}")

    def measured(self, evaluation: eval_pb2.Evaluation) -> None:
        for score in evaluation.pass_at_k:
            of = score.estimate
            self.say(f"{evaluation.id}: pass@{score.k} {of.value:.3f} ({of.low:.3f} to {of.high:.3f})")

    @contextmanager
    def following(self, work: News, goes_on: str = "") -> Iterator[Callable[[], None]]:
        def changed() -> None:
            for line in work.news():
                self.say(line)

        yield changed


SILENT = Lines(lambda line: None)
