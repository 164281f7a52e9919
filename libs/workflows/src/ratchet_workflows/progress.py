"""How whoever started a workflow learns what it does: the command draws it, a program may ignore it or log it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from ratchet.eval.v1 import eval_pb2


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

    def warn(self, line: str) -> None:
        """An error, after which the workflow goes on."""
        ...

    def measured(self, evaluation: eval_pb2.Evaluation) -> None:
        """An evaluation has succeeded."""
        ...

    def following(
        self, work: News, goes_on: str = "", log: Callable[[str], None] | None = None
    ) -> AbstractContextManager[Callable[[], None]]:
        """Entered around what may take hours; gives the function that is called after each change of `work`.

        `goes_on`: the sentence for a user who interrupts it or loses sight of it. `log` must get every line of news.
        """
        ...


class Silent:
    """Shows nothing."""

    def stage(self, title: str) -> None:
        pass

    def say(self, line: str) -> None:
        pass

    def warn(self, line: str) -> None:
        pass

    def measured(self, evaluation: eval_pb2.Evaluation) -> None:
        pass

    @contextmanager
    def following(
        self, work: News, goes_on: str = "", log: Callable[[str], None] | None = None
    ) -> Iterator[Callable[[], None]]:
        def changed() -> None:
            for line in work.news() if log else ():
                log(line)  # type: ignore[misc]  # there is a line only where there is a log

        yield changed


SILENT = Silent()
